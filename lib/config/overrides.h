// Values from the command line: --set section.key=value.
#pragma once

#include <string>

#include "config/yaml_tree.h"

namespace fp {

// Assigns the value of "a.b=c" or "a.b[0].c=d" in the tree, replacing what was there; the value is YAML ("" if empty).
// Missing maps and lists on the way are made; an index may be one past the end. Whether the key exists is left to the
// decoder.
void apply_set(YamlNode& root, const std::string& set, Problems& problems);

}  // namespace fp
