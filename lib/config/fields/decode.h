// Decodes a YAML tree into the structs, field by field.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/fields/field.h"
#include "config/yaml/yaml_tree.h"

namespace fp {

// Where each key of a document was written, by dotted path ("data.train[0].path"). Used by checks that span several
// keys.
struct Written {
  std::map<std::string, Place> places;
  std::set<std::string> failed;  // present but invalid: the member still has its default
  std::set<std::string> open;    // left to the planner: the member is not yet meaningful

  bool has(const std::string& path) const { return places.count(path) != 0; }
};

// Sets the members behind `fields` from a whole document, which must be a map. Adds unknown keys, wrong types and
// values out of range to `problems`.
void decode(const YamlNode& document, const Fields& fields, Written& written, Problems& problems);

}  // namespace fp
