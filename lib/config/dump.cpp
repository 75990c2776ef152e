#include "config/load.h"
#include "config/run_spec_fields.h"

namespace fp {

namespace {

// `indent` stands before every line but, for a list item, the first, which gets "- ".
void write_section(const Fields& fields, const std::string& indent, const std::string& first_indent, std::string& out) {
  bool first = true;
  for (const Field& f : fields.list()) {
    const std::string before = first ? first_indent : indent;
    first = false;
    out += before + std::string(f.key) + ":";
    if (const auto* section = std::get_if<SectionRef>(&f.ref)) {
      out += "\n";
      write_section(section->fields(), indent + "  ", indent + "  ", out);
    } else if (const auto* list = std::get_if<SectionListRef>(&f.ref); list != nullptr && list->size() > 0) {
      out += "\n";
      for (size_t i = 0; i < list->size(); ++i) write_section(list->item(i), indent + "    ", indent + "  - ", out);
    } else {
      out += " " + yaml_text(f) + "\n";
    }
  }
}

}  // namespace

std::string dump(const RunSpec& spec) {
  RunSpec copy = spec;  // fields refer to members that can be changed
  std::string out;
  write_section(fields_of(copy), "", "", out);
  return out;
}

}  // namespace fp
