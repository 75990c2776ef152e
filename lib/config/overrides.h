// Applies values from the command line: --set section.key=value.
#pragma once

#include <string>

#include "config/yaml/yaml_tree.h"

namespace fp {

// Applies `set`, of the form "a.b=c" or "a.b[0].c=d", to the tree, replacing any existing value. The value is YAML; an
// empty one is the empty text. Creates missing maps and lists on the way; an index may be one past the end. Adds syntax
// errors, and unquoted values that end in a comment, to `problems`; unknown keys are left to the decoder.
void apply_set(YamlNode& root, const std::string& set, Problems& problems);

}  // namespace fp
