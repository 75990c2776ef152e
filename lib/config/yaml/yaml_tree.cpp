#include "config/yaml/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <optional>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "config/yaml/scalar.h"

namespace fp {

namespace {

constexpr size_t kMaxDepth = 16;  // the run spec needs 4
constexpr size_t kMaxNodes = 20000;

Place make_place(const std::string& source, Lines lines, int line, int column) {
  return lines == Lines::shown ? Place{source, line, column} : Place{source, 0, 0};
}

// Thrown to stop parsing after a problem that has been recorded.
struct Abandon {};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& source, Lines lines, Problems& problems)
      : source_(source), lines_(lines), problems_(problems) {}

  YamlNode take() { return std::move(root_); }
  Place document_place() const { return document_; }

  void OnDocumentStart(const YAML::Mark& mark) override { document_ = place_of(mark); }
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    problems_.add(place_of(mark),
                  fmt::format("anchor '&{}': anchors are not allowed here; write the value out", shown(name)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.add(place_of(mark), "aliases (*name) are not allowed here; write the value out");
    add(YamlNode(YamlNode::Kind::null, place_of(mark)));
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(YamlNode(YamlNode::Kind::null, place_of(mark))); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    check_tag(mark, tag);
    // The text is UTF-8, but yaml-cpp 0.7 reads these two escapes as the bytes 0x85 and 0xa0.
    if (utf8_valid_prefix(value) != value.size())
      problems_.add(place_of(mark), "the escapes \\N and \\_ are not supported; write \\u0085 or \\u00a0");
    add(YamlNode(YamlNode::Kind::scalar, place_of(mark), value, tag == "!"));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, YamlNode::Kind::list);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    start(mark, tag, YamlNode::Kind::map);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    YamlNode node;
    std::optional<YamlNode> key;  // in a map: a key whose value is still to come
  };

  Place place_of(const YAML::Mark& mark) const { return make_place(source_, lines_, mark.line + 1, mark.column + 1); }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      problems_.add(place_of(mark), fmt::format("tag '{}': tags are not allowed here", shown(tag)));
  }

  void start(const YAML::Mark& mark, const std::string& tag, YamlNode::Kind kind) {
    check_tag(mark, tag);
    if (open_.size() >= kMaxDepth) {
      problems_.add(place_of(mark), fmt::format("nested deeper than {} levels", kMaxDepth));
      throw Abandon{};
    }
    open_.push_back({YamlNode(kind, place_of(mark)), std::nullopt});
  }

  void end() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (++nodes_ > kMaxNodes) {
      problems_.add(node.place, fmt::format("more than {} keys and values", kMaxNodes));
      throw Abandon{};
    }
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (Open& top = open_.back(); top.node.kind == YamlNode::Kind::list) {
      top.node.items.push_back(std::move(node));
    } else if (!top.key) {
      top.key = std::move(node);
    } else {
      add_entry(top.node, std::move(*top.key), std::move(node));
      top.key.reset();
    }
  }

  void add_entry(YamlNode& map, YamlNode key, YamlNode value) {
    if (key.kind != YamlNode::Kind::scalar) {
      problems_.add(key.place, fmt::format("a key must be a word, not {}", describe(key)));
      return;
    }
    if (const YamlEntry* first = map.find(key.text)) {
      problems_.add(key.place,
                    fmt::format("key '{}' is given twice; first at {}", shown(key.text), first->place.str()));
      return;
    }
    // yaml-cpp places an empty value at the token after it; its key is the better place.
    if (value.kind == YamlNode::Kind::null) value.place = key.place;
    map.entries.push_back({std::move(key.text), key.place, std::move(value)});
  }

  const std::string& source_;
  const Lines lines_;
  Problems& problems_;
  size_t nodes_ = 0;
  YamlNode root_;
  Place document_;
  std::vector<Open> open_;
};

// Returns false and records the first offending place if the text is not printable UTF-8 or is too long.
bool check_characters(std::string_view text, const std::string& source, Lines lines, std::string_view kind,
                      Problems& problems) {
  if (text.size() > kMaxYamlBytes) {
    problems.add(make_place(source, lines, 1, 1), fmt::format("more than {} bytes: not a {}", kMaxYamlBytes, kind));
    return false;
  }
  int line = 1, column = 1;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_character(text.substr(i));
    const auto c = static_cast<unsigned char>(text[i]);
    const bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    if (length == 0 || control) {
      problems.add(make_place(source, lines, line, column),
                   fmt::format("byte 0x{:02x} is not text: a {} is YAML in UTF-8", c, kind));
      return false;
    }
    i += length;
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n';
  }
  return true;
}

}  // namespace

YamlNode::YamlNode() = default;

YamlNode::YamlNode(Kind kind_, Place place_, std::string text_, bool quoted_)
    : kind(kind_), place(std::move(place_)), text(std::move(text_)), quoted(quoted_) {}

const YamlEntry* YamlNode::find(std::string_view key) const {
  for (const YamlEntry& e : entries)
    if (e.key == key) return &e;
  return nullptr;
}

YamlEntry* YamlNode::find(std::string_view key) { return const_cast<YamlEntry*>(std::as_const(*this).find(key)); }

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing (null)";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::scalar:
      break;
  }
  const std::string text = shown(node.text);
  if (node.quoted) return fmt::format("the text \"{}\"", text);
  switch (classify_plain(node.text)) {
    case PlainKind::boolean:
      return "the boolean " + text;
    case PlainKind::number:
    case PlainKind::nonfinite:
      return "the number " + text;
    default:
      return fmt::format("the text '{}'", text);
  }
}

namespace {

// Returns what to do about a syntax error that is reported at a line counted from 0; empty if nothing can be said.
std::string syntax_advice(std::string_view text, int line, std::string_view message) {
  if (message.find("flow not found") != std::string_view::npos) return "; a '{' or '[' above is not closed";
  int number = 0, first = -1;  // the first line that is indented with a tab; the one reported, if that is
  for (; !text.empty(); ++number) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    const size_t indentation = std::min(whole.find_first_not_of(" \t"), whole.size());
    const bool has_tab = indentation < whole.size() && whole.substr(0, indentation).find('\t') != whole.npos;
    if (has_tab && (first < 0 || number == line)) first = number;
    text.remove_prefix(std::min(whole.size() + 1, text.size()));
  }
  if (first < 0) return "";
  return fmt::format("; {} is indented with a tab, and YAML allows only spaces",
                     first == line ? "the line" : fmt::format("line {}", first + 1));
}

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& source, Problems& problems, Lines lines,
                    std::string_view kind) {
  if (!check_characters(text, source, lines, kind, problems)) return {};
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(source, lines, problems);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {};
    YamlNode root = builder.take();
    TreeBuilder second(source, lines, problems);
    if (parser.HandleNextDocument(second))
      problems.add(second.document_place(), fmt::format("a second document: a {} is one YAML document", kind));
    return root;
  } catch (const YAML::Exception& e) {
    problems.add(make_place(source, lines, e.mark.line + 1, e.mark.column + 1),
                 fmt::format("YAML syntax: {}{}", shown(e.msg), syntax_advice(text, e.mark.line, e.msg)));
  } catch (const Abandon&) {
  }
  return {};
}

YamlNode merged(const YamlNode& base, const YamlNode& over) {
  if (base.kind != YamlNode::Kind::map || over.kind != YamlNode::Kind::map) return over;
  YamlNode result = base;
  result.place = over.place;
  for (const YamlEntry& e : over.entries) {
    if (YamlEntry* b = result.find(e.key))
      *b = {e.key, e.place, merged(b->value, e.value)};
    else
      result.entries.push_back(e);
  }
  return result;
}

}  // namespace fp
