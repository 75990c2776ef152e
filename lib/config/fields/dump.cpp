#include <fmt/format.h>

#include <set>

#include "config/cluster/cluster_fields.h"
#include "config/load.h"
#include "config/open_keys.h"
#include "config/run_spec_fields.h"

namespace fp {

namespace {

struct Writer {
  std::set<std::string_view> open = {};  // keys left to the planner, which have no value yet
  std::string out = {};

  // Every line begins with `indent`, except the first, which begins with `first_indent` ("- " for a list item).
  void section(const Fields& fields, const std::string& path, const std::string& indent,
               const std::string& first_indent) {
    bool first = true;
    for (const Field& f : fields.list()) {
      const std::string here = path.empty() ? std::string(f.key) : path + "." + std::string(f.key);
      if (open.count(here) != 0) continue;
      out += (first ? first_indent : indent) + std::string(f.key) + ":";
      first = false;
      if (const auto* below = std::get_if<SectionRef>(&f.ref)) {
        out += "\n";
        section(below->fields(), here, indent + "  ", indent + "  ");
      } else if (const auto* list = std::get_if<SectionListRef>(&f.ref); list != nullptr && list->size() > 0) {
        out += "\n";
        for (size_t i = 0; i < list->size(); ++i) section(list->item(i), here, indent + "    ", indent + "  - ");
      } else {
        out += " " + yaml_text(f) + "\n";
      }
    }
  }
};

std::set<std::string_view> open_paths(const RunSpec& spec) {
  std::set<std::string_view> open;
  for (const OpenKey& key : open_keys())
    if (is_open(spec, key.name)) open.insert(key.path);
  return open;
}

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

void flatten(const Fields& fields, const std::string& path, const std::set<std::string_view>& open,
             KeysAndValues& out) {
  for (const Field& f : fields.list()) {
    const std::string here = path.empty() ? std::string(f.key) : path + "." + std::string(f.key);
    if (open.count(here) != 0) continue;
    const auto* list = std::get_if<SectionListRef>(&f.ref);
    if (const auto* below = std::get_if<SectionRef>(&f.ref))
      flatten(below->fields(), here, open, out);
    else if (list != nullptr && list->size() > 0)
      for (size_t i = 0; i < list->size(); ++i) flatten(list->item(i), fmt::format("{}[{}]", here, i), open, out);
    else
      out.emplace_back(here, yaml_text(f));
  }
}

}  // namespace

std::string dump(const RunSpec& spec) {
  RunSpec copy = spec;  // fields refer to members that can be changed
  Writer writer{open_paths(spec)};
  writer.section(fields_of(copy), "", "", "");
  return std::move(writer.out);
}

std::vector<std::pair<std::string, std::string>> flatten(const RunSpec& spec) {
  RunSpec copy = spec;
  KeysAndValues out;
  flatten(fields_of(copy), "", open_paths(spec), out);
  return out;
}

std::string dump(const ClusterSpec& spec) {
  ClusterSpec copy = spec;
  Writer writer;
  writer.section(fields_of(copy), "", "", "");
  return std::move(writer.out);
}

}  // namespace fp
