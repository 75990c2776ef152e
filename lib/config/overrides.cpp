#include "config/overrides.h"

#include <optional>
#include <vector>

#include "base/error.h"

namespace fp {

namespace {

struct Step {
  std::string key;              // key of a map
  std::optional<size_t> index;  // or else index of a list
};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// Splits "a.b[0].c" into steps; returns nullopt if it is not a path.
std::optional<std::vector<Step>> parse_path(std::string_view path) {
  constexpr size_t kMaxIndexDigits = 4;
  std::vector<Step> steps;
  size_t i = 0;
  while (true) {
    Step step;
    while (i < path.size() && is_word(path[i])) step.key += path[i++];
    if (step.key.empty()) return std::nullopt;
    steps.push_back(std::move(step));
    while (i < path.size() && path[i] == '[') {
      std::string digits;
      while (++i < path.size() && path[i] >= '0' && path[i] <= '9') digits += path[i];
      if (digits.empty() || digits.size() > kMaxIndexDigits || i >= path.size() || path[i] != ']') return std::nullopt;
      steps.push_back({"", std::stoul(digits)});
      ++i;
    }
    if (i == path.size()) return steps;
    if (path[i++] != '.') return std::nullopt;
  }
}

YamlNode& become(YamlNode& node, YamlNode::Kind kind, const Place& place) {
  if (node.kind != kind) node = YamlNode(kind, place);
  return node;
}

// Returns the node that a step leads to, created if missing; nullptr if the index is beyond the end.
YamlNode* follow(YamlNode& node, const Step& step, const Place& place) {
  if (!step.index) {
    YamlNode& map = become(node, YamlNode::Kind::map, place);
    if (YamlEntry* e = map.find(step.key)) return &e->value;
    map.entries.push_back({step.key, place, YamlNode(YamlNode::Kind::null, place)});
    return &map.entries.back().value;
  }
  YamlNode& list = become(node, YamlNode::Kind::list, place);
  if (*step.index > list.items.size()) return nullptr;
  if (*step.index == list.items.size()) list.items.push_back(YamlNode(YamlNode::Kind::null, place));
  return &list.items[*step.index];
}

// Returns whether a part of the text of an unquoted scalar, or of an empty value, is a comment in YAML.
bool loses_a_comment(std::string_view text, const YamlNode& value) {
  const bool plain = value.kind == YamlNode::Kind::null || (value.kind == YamlNode::Kind::scalar && !value.quoted);
  for (size_t at = text.find('#'); plain && at != text.npos; at = text.find('#', at + 1))
    if (at == 0 || std::string_view(" \t\r\n").find(text[at - 1]) != std::string_view::npos) return true;
  return false;
}

}  // namespace

void apply_set(YamlNode& root, const std::string& set, Problems& problems) {
  const Place place{"--set " + shown(set)};
  const size_t equals = set.find('=');
  const auto steps = parse_path(std::string_view(set).substr(0, equals));
  if (equals == std::string::npos || !steps) {
    problems.add(place, "must have the form section.key=value, such as optimizer.lr=3e-4 or data.train[0].weight=2");
    return;
  }
  const std::string_view text = std::string_view(set).substr(equals + 1);
  Problems in_value;
  YamlNode value = text.empty() ? YamlNode(YamlNode::Kind::scalar, place, "", true)
                                : parse_yaml(text, place.source, in_value, Lines::hidden);
  if (value.place.source.empty()) value.place = place;
  if (in_value.empty() && loses_a_comment(text, value))
    in_value.add(place, fmt::format("'#' after a space begins a comment, so that text would be lost; put the value in "
                                    "quotes: '{}=\"...\"'",
                                    shown(set.substr(0, equals))));
  if (!in_value.empty()) {
    problems.append(in_value);
    return;
  }
  YamlNode* node = &root;
  for (const Step& step : *steps) {
    node = follow(*node, step, place);
    if (node == nullptr) {
      problems.add(place,
                   fmt::format("the list has no item {}; the next new one is the number of items it has", *step.index));
      return;
    }
  }
  *node = std::move(value);
}

}  // namespace fp
