#include "config/fields/decode.h"

#include <algorithm>

#include "base/error.h"
#include "config/fields/check_values.h"
#include "config/yaml/scalar.h"

namespace fp {

namespace {

std::string joined_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

// Returns the dotted path of the first field, in any section, for which `matches` holds; empty if there is none.
template <class Matches>
std::string find_path(const Fields& fields, const std::string& path, const Matches& matches) {
  for (const Field& f : fields.list()) {
    const std::string here = joined_path(path, f.key);
    if (matches(f)) return here;
    std::string below;
    if (const auto* section = std::get_if<SectionRef>(&f.ref)) below = find_path(section->fields(), here, matches);
    if (const auto* list = std::get_if<SectionListRef>(&f.ref)) below = find_path(list->blank(), here + "[]", matches);
    if (!below.empty()) return below;
  }
  return "";
}

// Appends the paths of all fields that other programs call `key`.
void add_known_elsewhere(std::string_view key, const Fields& fields, const std::string& path, std::string& found) {
  for (const Field& f : fields.list()) {
    const std::string here = joined_path(path, f.key);
    if (std::ranges::find(f.info.elsewhere, key) != f.info.elsewhere.end())
      found += (found.empty() ? "" : "' and '") + here;
    if (const auto* section = std::get_if<SectionRef>(&f.ref)) add_known_elsewhere(key, section->fields(), here, found);
  }
}

// Returns the key that an unknown key may stand for: one that other programs call so, one with a similar spelling, the
// same key in another section, or one whose description contains its words ("learning_rate" for lr). Empty if there is
// none.
std::string meant(std::string_view key, const Fields& fields, const Fields& all) {
  std::string elsewhere;
  add_known_elsewhere(key, all, "", elsewhere);
  if (!elsewhere.empty()) return elsewhere;
  if (const auto near = nearest(key, fields.keys()); !near.empty()) return std::string(near);
  if (auto path = find_path(all, "", [&](const Field& f) { return f.key == key; }); !path.empty()) return path;
  std::string phrase(key);
  std::replace(phrase.begin(), phrase.end(), '_', ' ');
  if (phrase.find(' ') == std::string::npos) return "";
  return find_path(all, "", [&](const Field& f) { return f.info.doc.find(phrase) != std::string_view::npos; });
}

std::string unknown_key(std::string_view key, const Fields& fields, const std::string& path, const Fields& all) {
  std::string text = fmt::format("unknown key '{}'. ", shown(joined_path(path, key)));
  if (key == "<<") return text + "Merge keys are not supported, write the values out";
  if (const std::string m = meant(key, fields, all); !m.empty()) text += fmt::format("Did you mean '{}'? ", m);
  return text + fmt::format("Legal keys{}: {}", path.empty() ? "" : " of " + path, joined(fields.keys()));
}

class Decoder {
 public:
  Decoder(const Fields& all, Written& written, Problems& problems)
      : all_(all), written_(written), problems_(problems) {}

  void section(const YamlNode& node, const Fields& fields, const std::string& path) {
    if (node.kind != YamlNode::Kind::map) {
      fail(path, node.place,
           fmt::format("{} must be a map of keys, not {}. Legal keys: {}", path.empty() ? "the file" : path,
                       describe(node), joined(fields.keys())));
      return;
    }
    for (const YamlEntry& e : node.entries) {
      const Field* field = fields.find(e.key);
      const std::string here = joined_path(path, e.key);
      if (field == nullptr) {
        problems_.add(e.place, unknown_key(e.key, fields, path, all_));
        continue;
      }
      written_.places[here] = e.value.place;
      value(e.value, *field, here);
    }
    for (const Field& f : fields.list())
      if (f.info.required && node.find(f.key) == nullptr)
        fail(joined_path(path, f.key), node.place,
             fmt::format("{} must be given: {}", joined_path(path, f.key), f.info.doc));
  }

 private:
  void fail(const std::string& path, const Place& place, std::string message) {
    written_.failed.insert(path);
    problems_.add(place, std::move(message));
  }

  bool refuse(const YamlNode& node, const Field& field, const std::string& path, const std::string& what) {
    fail(path, node.place, refusal(field, path, what));
    return false;
  }

  bool refuse_type(const YamlNode& node, const Field& field, const std::string& path) {
    return refuse(node, field, path, describe(node) + " is of the wrong type");
  }

  void value(const YamlNode& node, const Field& field, const std::string& path) {
    std::visit([&](const auto& ref) { read(node, field, path, ref); }, field.ref);
  }

  bool is_number(const YamlNode& node) const {
    if (node.kind != YamlNode::Kind::scalar || node.quoted) return false;
    const PlainKind kind = classify_plain(node.text);
    return kind == PlainKind::number || kind == PlainKind::nonfinite;
  }

  template <class Integer>
  bool read_integer(const YamlNode& node, const Field& field, const std::string& path, Integer& out) {
    if (!is_number(node)) return refuse_type(node, field, path);
    const IntegerText i = parse_integer(node.text);
    if (!i.error.empty()) return refuse(node, field, path, shown(node.text) + " " + i.error);
    const __int128 v = i.negative ? -static_cast<__int128>(i.magnitude) : static_cast<__int128>(i.magnitude);
    if (v < std::numeric_limits<Integer>::min() || v > std::numeric_limits<Integer>::max() ||
        !is_in_range(static_cast<double>(v), field.info))
      return refuse(node, field, path, shown(node.text) + " is out of range");
    out = static_cast<Integer>(v);
    return true;
  }

  bool read_real(const YamlNode& node, const Field& field, const std::string& path, double& out) {
    if (!is_number(node)) return refuse_type(node, field, path);
    const RealText r = parse_real(node.text);
    if (!r.error.empty()) return refuse(node, field, path, shown(node.text) + " " + r.error);
    if (!is_in_range(r.value, field.info)) return refuse(node, field, path, shown(node.text) + " is out of range");
    out = r.value;
    return true;
  }

  void read(const YamlNode& node, const Field& field, const std::string& path, bool* out) {
    if (node.kind == YamlNode::Kind::scalar && !node.quoted && classify_plain(node.text) == PlainKind::boolean)
      *out = node.text[0] == 't' || node.text[0] == 'T';
    else
      refuse_type(node, field, path);
  }
  void read(const YamlNode& node, const Field& field, const std::string& path, int* out) {
    read_integer(node, field, path, *out);
  }
  void read(const YamlNode& node, const Field& field, const std::string& path, int64_t* out) {
    read_integer(node, field, path, *out);
  }
  void read(const YamlNode& node, const Field& field, const std::string& path, uint64_t* out) {
    read_integer(node, field, path, *out);
  }
  void read(const YamlNode& node, const Field& field, const std::string& path, double* out) {
    read_real(node, field, path, *out);
  }
  void read(const YamlNode& node, const Field& field, const std::string& path, std::optional<double>* out) {
    double v = 0;
    if (node.kind == YamlNode::Kind::null)
      out->reset();
    else if (read_real(node, field, path, v))
      *out = v;
  }

  // Text that YAML takes for a number or a boolean must be quoted, so that its spelling is preserved.
  bool read_text(const YamlNode& node, const Field& field, const std::string& path) {
    if (node.kind != YamlNode::Kind::scalar) return refuse_type(node, field, path);
    if (!node.quoted && classify_plain(node.text) != PlainKind::text)
      return refuse(node, field, path,
                    fmt::format("{} is not text; quote it: \"{}\"", describe(node), shown(node.text)));
    if (node.text.find('\0') != std::string::npos)
      return refuse(node, field, path, fmt::format("'{}' contains the character \\0", shown(node.text)));
    return true;
  }

  void read(const YamlNode& node, const Field& field, const std::string& path, std::string* out) {
    if (!read_text(node, field, path)) return;
    if (const auto choices = choices_of(field); !choices.empty() && !known(node, field, path, choices)) return;
    *out = node.text;
  }

  void read(const YamlNode& node, const Field& field, const std::string& path, const EnumRef& ref) {
    if (size_t index = 0; read_enumerator(node, field, path, index)) ref.set(index);
  }

  bool read_enumerator(const YamlNode& node, const Field& field, const std::string& path, size_t& index) {
    const std::vector<std::string_view> names = choices_of(field);
    if (!read_text(node, field, path) || !known(node, field, path, names)) return false;
    index = static_cast<size_t>(std::ranges::find(names, node.text) - names.begin());
    return true;
  }

  void read(const YamlNode& node, const Field& field, const std::string& path, const EnumListRef& ref) {
    std::vector<size_t> indices = ref.get();
    read_list(node, field, path, indices, [&](const YamlNode& item, const std::string& at, size_t& i) {
      return read_enumerator(item, field, at, i);
    });
    ref.set(indices);
  }

  bool known(const YamlNode& node, const Field& field, const std::string& path,
             const std::vector<std::string_view>& choices) {
    for (const auto c : choices)
      if (c == node.text) return true;
    const auto near = nearest(node.text, choices);
    return refuse(node, field, path,
                  fmt::format("'{}' is not known{}", shown(node.text),
                              near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
  }

  void read(const YamlNode& node, const Field& field, const std::string& path, std::vector<int64_t>* out) {
    read_list(node, field, path, *out, [&](const YamlNode& item, const std::string& at, int64_t& v) {
      return read_integer(item, field, at, v);
    });
  }
  void read(const YamlNode& node, const Field& field, const std::string& path, std::vector<double>* out) {
    read_list(node, field, path, *out,
              [&](const YamlNode& item, const std::string& at, double& v) { return read_real(item, field, at, v); });
  }

  void read(const YamlNode& node, const Field& field, const std::string& path, std::vector<std::string>* out) {
    read_list(node, field, path, *out, [&](const YamlNode& item, const std::string& at, std::string& v) {
      v = item.text;
      return read_text(item, field, at) && (field.info.choices.empty() || known(item, field, at, field.info.choices));
    });
  }

  template <class T, class ReadItem>
  void read_list(const YamlNode& node, const Field& field, const std::string& path, std::vector<T>& out,
                 ReadItem read_item) {
    if (node.kind == YamlNode::Kind::scalar && !node.quoted && node.text == field.info.empty) return out.clear();
    if (node.kind != YamlNode::Kind::list) {
      refuse_type(node, field, path);
      return;
    }
    std::vector<T> list(node.items.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", path, i);
      written_.places[at] = node.items[i].place;
      if (!read_item(node.items[i], at, list[i])) written_.failed.insert(path);
    }
    out = std::move(list);
  }

  void read(const YamlNode& node, const Field&, const std::string& path, const SectionRef& ref) {
    section(node, ref.fields(), path);
  }

  void read(const YamlNode& node, const Field& field, const std::string& path, const SectionListRef& ref) {
    if (node.kind != YamlNode::Kind::list) {
      refuse(node, field, path,
             fmt::format("{} is not a list; write '- {}: ...' items, or {}[0].{}=... after --set", describe(node),
                         ref.blank().keys().front(), path, ref.blank().keys().front()));
      return;
    }
    ref.resize(node.items.size());
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", path, i);
      written_.places[at] = node.items[i].place;
      section(node.items[i], ref.item(i), at);
    }
  }

  const Fields& all_;  // the fields of the whole document
  Written& written_;
  Problems& problems_;
};

}  // namespace

void decode(const YamlNode& document, const Fields& fields, Written& written, Problems& problems) {
  Decoder(fields, written, problems).section(document, fields, "");
}

}  // namespace fp
