// From the YAML tree to the structs, field by field.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/field.h"
#include "config/yaml_tree.h"

namespace fp {

// What was written where, by dotted path ("data.train[0].path"); for checks that span several keys.
struct Written {
  std::map<std::string, Place> places;
  std::set<std::string> failed;  // present but unusable: the member still has its default
  std::set<std::string> open;    // left to the planner: the member has no meaning yet

  bool has(const std::string& path) const { return places.count(path) != 0; }
};

// Sets the members behind `fields` from a whole document, a map. Unknown keys, wrong types and values out of range go
// to `problems`.
void decode(const YamlNode& document, const Fields& fields, Written& written, Problems& problems);

}  // namespace fp
