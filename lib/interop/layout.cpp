#include "interop/layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "config/yaml/problems.h"

namespace fp {
namespace {

int64_t length_of(const std::string& word, const ModelSection& m) {
  if (word == "heads") return m.heads;
  if (word == "kv_heads") return m.kv_heads;
  return word == "ffn" ? m.ffn : m.hidden;
}

// Returns how a parameter of this shape is stored. Throws ConfigError, without its position, when the rule does not
// fit.
StoredAs stored_as(const MappingRule& rule, std::shared_ptr<const NamePattern> source, NamePattern::Numbers numbers,
                   const ModelSection& m, const Shape& shape) {
  StoredAs s{.source = std::move(source),
             .numbers = std::move(numbers),
             .transform = rule.transform,
             .pattern = rule.pattern,
             .dim = rule.dim,
             .ratios = {},
             .shape = {},
             .head_dim = m.head_dim};
  for (int i = 0; i < shape.rank(); ++i) s.shape.push_back(shape[i]);
  for (const std::string& word : rule.sub_fragments) s.ratios.push_back(length_of(word, m));
  if (s.transform == TensorTransform::transposed) {
    if (shape.rank() != 2) throw ConfigError(fmt::format("{} cannot be transposed, it is no matrix", shape.str()));
    std::swap(s.shape[0], s.shape[1]);
  }
  if (s.transform == TensorTransform::rotary_pairs && (s.head_dim % 2 != 0 || s.shape[0] % s.head_dim != 0))
    throw ConfigError(
        fmt::format("{} cannot be rotary pairs: its rows are not divisible into heads of {}", shape.str(), s.head_dim));
  return s;
}

// The compiled rules of a mapping.
class Rules {
 public:
  explicit Rules(const MappingSpec& mapping) : mapping_(mapping) {
    for (const MappingRule& r : mapping.rules) {
      sources_.push_back(std::make_shared<const NamePattern>(r.source));
      targets_.emplace_back(r.target);
    }
  }
  // Returns the index of the rule for a parameter, or the number of rules when there is none.
  size_t find(const std::string& name, NamePattern::Numbers& numbers) const {
    size_t i = 0;
    for (; i < targets_.size(); ++i)
      if (auto found = targets_[i].match(name)) {
        numbers = std::move(*found);
        break;
      }
    return i;
  }
  StoredAs apply(size_t rule, NamePattern::Numbers numbers, const ModelSection& m, const Param& p) const {
    try {
      return stored_as(mapping_.rules[rule], sources_[rule], std::move(numbers), m, p.shape);
    } catch (const ConfigError& e) {
      throw ConfigError(fmt::format("{}: rules[{}], {}: {}", mapping_.name, rule, p.name, e.what()));
    }
  }

 private:
  const MappingSpec& mapping_;
  std::vector<std::shared_ptr<const NamePattern>> sources_;
  std::vector<NamePattern> targets_;
};

[[noreturn]] void refuse_missing(const MappingSpec& mapping, const std::vector<std::string>& missing) {
  std::vector<std::string_view> targets;
  for (const MappingRule& r : mapping.rules) targets.push_back(r.target);
  const std::string_view near = nearest(missing.front(), targets);
  throw ConfigError(fmt::format("{}: has no rule for parameters of this model{}:\n  {}", mapping.name,
                                near.empty() ? "" : fmt::format(" (the nearest target is '{}')", shown(near)),
                                fmt::join(missing, "\n  ")));
}

}  // namespace

std::vector<std::string> StoredAs::names(int64_t part) const {
  if (!names_parts()) return source->names(numbers);
  NamePattern::Numbers all = numbers;
  all.emplace(kPartNumber, part);
  return source->names(all);
}

Layout::Layout(const MappingSpec& mapping, const ModelSection& m, const ParamTable& table) {
  const Rules rules(mapping);
  std::vector<size_t> rule_of;
  std::vector<std::string> missing;
  for (const Param& p : table) {
    NamePattern::Numbers numbers;
    rule_of.push_back(rules.find(p.name, numbers));
    if (rule_of.back() == mapping.rules.size())
      missing.push_back(p.name);
    else
      stored_.push_back(rules.apply(rule_of.back(), std::move(numbers), m, p));
  }
  if (!missing.empty()) refuse_missing(mapping, missing);
  order_.resize(table.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, {}, [&](ParamId id) { return rule_of[static_cast<size_t>(id)]; });
  for (size_t i = 0; i < mapping.rules.size(); ++i) {
    const MappingRule& r = mapping.rules[i];
    const ParamId of = r.same_as.empty() || table.find(r.target) >= 0 ? -1 : table.find(r.same_as);
    if (of >= 0) copies_.push_back({rules.apply(i, {}, m, table[of]), of, i});
  }
  for (const std::string& text : mapping.ignore) ignored_.emplace_back(text);
}

bool Layout::ignores(const std::string& name) const {
  return std::ranges::any_of(ignored_, [&](const NamePattern& p) { return p.match(name).has_value(); });
}

}  // namespace fp
