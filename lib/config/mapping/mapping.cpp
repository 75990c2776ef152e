#include "config/mapping/mapping.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "config/fields/decode.h"
#include "config/mapping/mapping_fields.h"
#include "config/mapping/name_pattern.h"
#include "config/preset.h"
#include "config/validate.h"
#include "config/yaml/document.h"

namespace fp {
namespace {

constexpr DocumentKind kMapping = {"mapping", "has family, rules and perhaps files and ignore"};

// A pattern of the file, with its key.
struct Named {
  std::string key;
  std::optional<NamePattern> pattern;  // nullopt: it is malformed
};

Named named(const std::string& key, const std::string& text, Checker& check) {
  try {
    return {key, NamePattern(text)};
  } catch (const ConfigError& e) {
    check.require(false, {key}, fmt::format("{}: '{}': {}", key, shown(text), e.what()));
    return {key, std::nullopt};
  }
}

std::string in_braces(const NamePattern& p) {
  std::string text;
  for (const std::string& n : p.numbers()) text += (text.empty() ? "{" : ", {") + n + "}";
  return text.empty() ? "none" : text;
}

// Checks that no name matches two of the patterns.
void check_distinct(const std::vector<Named>& list, const std::string& what, Checker& check) {
  for (size_t i = 0; i < list.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const auto &a = list[i].pattern, &b = list[j].pattern;
      if (!a || !b || !a->overlaps(*b)) continue;
      check.require(false, {list[i].key, list[j].key},
                    fmt::format("{} = '{}' and {} = '{}' stand for the same {}; legal: one rule for each", list[i].key,
                                shown(a->text()), list[j].key, shown(b->text()), what));
      break;  // thousands of equal rules have millions of pairs
    }
}

void check_part_number(const Named& source, bool in_files, Checker& check) {
  check.require(!in_files || !source.pattern->numbers().contains(kPartNumber), {source.key},
                fmt::format("{} = '{}' has {{part}}, but files is given too; legal: one of them", source.key,
                            shown(source.pattern->text())));
}

// Checks that source and target determine each other.
void check_invertible(const Named& source, const Named& target, Checker& check) {
  auto numbers = source.pattern->numbers();
  numbers.erase(std::string(kPartNumber));
  check.require(target.pattern->numbers() == numbers, {target.key},
                fmt::format("{} = '{}' has the numbers {}, {} = '{}' has {}; legal: the same, so that each name "
                            "determines the other ({{part}} does not count)",
                            target.key, shown(target.pattern->text()), in_braces(*target.pattern), source.key,
                            shown(source.pattern->text()), in_braces(*source.pattern)));
  check.require(!target.pattern->has_option(), {target.key},
                fmt::format("{} = '{}': the name of a parameter has no optional part", target.key,
                            shown(target.pattern->text())));
}

void check_copy(const MappingSpec& m, const MappingRule& r, const std::string& path, Checker& check) {
  if (r.same_as.empty()) return;
  std::vector<std::string_view> targets;
  for (const MappingRule& other : m.rules)
    if (&other != &r && other.same_as.empty()) targets.push_back(other.target);
  const std::string_view near = nearest(r.same_as, targets);
  const bool plain = (r.same_as + r.target).find('{') == std::string::npos;
  check.require(plain && std::ranges::find(targets, r.same_as) != targets.end(), {path + ".same_as"},
                fmt::format("{}.same_as = '{}' is not known{}; legal: the target of another rule, both without numbers",
                            path, shown(r.same_as), near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

void check_cut(const MappingRule& r, const std::string& path, Checker& check) {
  for (const char* key : {".dim", ".sub_fragments"})
    check.require(r.pattern == PartPattern::fragment || !check.written(path + key), {path + key, path + ".pattern"},
                  fmt::format("{}{} has no effect with pattern {}; it is for fragment", path, key, r.pattern));
}

void check_files(const MappingSpec& m, Checker& check) {
  if (m.files.empty()) return;
  const Named files = named("files", m.files, check);
  check.require(!files.pattern || (in_braces(*files.pattern) == "{part}" && !files.pattern->has_option()), {"files"},
                fmt::format("files = '{}' must have one number, {{part}}, and no optional part", shown(m.files)));
}

void check_rules(const MappingSpec& m, Checker& check) {
  std::vector<Named> sources, targets;
  for (size_t i = 0; i < m.rules.size(); ++i) {
    const MappingRule& r = m.rules[i];
    const std::string path = fmt::format("rules[{}]", i);
    sources.push_back(named(path + ".source", r.source, check));
    targets.push_back(named(path + ".target", r.target, check));
    if (sources.back().pattern) check_part_number(sources.back(), !m.files.empty(), check);
    if (sources.back().pattern && targets.back().pattern) check_invertible(sources.back(), targets.back(), check);
    check_copy(m, r, path, check);
    check_cut(r, path, check);
  }
  check_distinct(targets, "parameter", check);
  for (size_t i = 0; i < m.ignore.size(); ++i)
    sources.push_back(named(fmt::format("ignore[{}]", i), m.ignore[i], check));
  check_distinct(sources, "tensor", check);
}

// Returns the formats for which there are mappings of this family.
std::string formats_of(std::string_view family) {
  const std::string suffix = fmt::format("-{}", family);
  const std::vector<std::string> names = mapping_names();
  std::vector<std::string_view> formats;
  for (const std::string_view name : names)
    if (name.ends_with(suffix)) formats.push_back(name.substr(0, name.size() - suffix.size()));
  return formats.empty() ? "none, as the folder mappings is neither beside the executable nor in $FPTRAIN_CONFIGS"
                         : joined(formats);
}

}  // namespace

MappingSpec parse_mapping(std::string_view text, const std::string& name) {
  Problems problems;
  const YamlNode root = parse_document(text, name, kMapping);
  MappingSpec spec;
  spec.name = name;
  Written written;
  decode(root, fields_of(spec), written, problems);
  Checker check(written, name, problems);
  check.require(!spec.rules.empty(), {"rules"}, "rules must have at least one entry");
  check_files(spec, check);
  check_rules(spec, check);
  problems.throw_if_any();
  return spec;
}

MappingSpec load_mapping(const std::filesystem::path& path) {
  return parse_mapping(read_document(path, kMapping), path.string());
}

MappingSpec choose_mapping(const std::string& mapping, std::string_view format, Family family) {
  const std::string name = mapping.empty() ? fmt::format("{}-{}", format, name_of(family)) : mapping;
  const std::filesystem::path path = find_mapping(name, "");
  if (path.empty() && mapping.empty())
    throw ConfigError(fmt::format("--format {}: there is no mapping {} for {} models; legal: {}; or --mapping FILE",
                                  shown(format), shown(name), name_of(family), formats_of(name_of(family))));
  if (path.empty()) {
    const std::vector<std::string> names = mapping_names();
    throw ConfigError(fmt::format("--mapping {}: is neither a file nor a mapping; legal: a YAML file, or {}",
                                  shown(mapping), joined({names.begin(), names.end()})));
  }
  MappingSpec spec = load_mapping(path);
  if (spec.family != family)
    throw ConfigError(fmt::format("{}: is a mapping of {} models, and this is a {} model", path.string(),
                                  name_of(spec.family), name_of(family)));
  return spec;
}

}  // namespace fp
