// A YAML document as a tree in which every key and value has its place in the source. Stricter than YAML: one document,
// no anchors, aliases, merge keys or tags, no duplicate keys, bounded size and depth. Parsing therefore takes bounded
// time and memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/yaml/problems.h"

namespace fp {

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, map, list };

  Kind kind = Kind::null;
  Place place;
  std::string text;     // value of a scalar
  bool quoted = false;  // quoted or block scalar: always text
  std::vector<YamlEntry> entries;
  std::vector<YamlNode> items;

  YamlNode();
  YamlNode(Kind kind, Place place, std::string text = "", bool quoted = false);

  const YamlEntry* find(std::string_view key) const;
  YamlEntry* find(std::string_view key);
};

struct YamlEntry {
  std::string key;
  Place place;
  YamlNode value;
};

// Describes a node for messages: "the text 'x'", "the number 3", "a map", ...
std::string describe(const YamlNode& node);

constexpr size_t kMaxYamlBytes = 1 << 20;

// Whether places have a line and column, or only the source (for values on the command line and text made by code).
enum class Lines { shown, hidden };

// Parses `text`. `source` names it in messages, and `kind` what it should be. Adds errors to `problems`. Empty text
// gives a null node without a place.
YamlNode parse_yaml(std::string_view text, const std::string& source, Problems& problems, Lines lines = Lines::shown,
                    std::string_view kind = "run spec");

// Returns `base` overridden by `over`: maps are merged key by key, anything else is replaced, also by a null in `over`.
YamlNode merged(const YamlNode& base, const YamlNode& over);

}  // namespace fp
