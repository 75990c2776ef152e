#include "strict_markup.h"

#include <set>
#include <stdexcept>

namespace fp::test {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == ':';
}

class Parser {
 public:
  explicit Parser(std::string_view markup) : all_(markup) {}

  std::vector<Element> parse() {
    check_utf8();
    if (rest().starts_with("<!DOCTYPE html>")) at_ += 15;
    while (at_ < all_.size()) {
      if (peek() == '<') {
        rest().starts_with("</") ? end_tag() : start_tag();
      } else {
        add_text(character());
      }
    }
    if (!open_.empty()) fail("<" + elements_[open_.back()].name + "> is never closed");
    if (roots_ != 1) fail("there must be one root element");
    return std::move(elements_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("offset " + std::to_string(at_) + ": " + what + " near '" +
                             std::string(all_.substr(at_ < 20 ? 0 : at_ - 20, 60)) + "'");
  }
  std::string_view rest() const { return all_.substr(at_); }
  char peek() const { return at_ < all_.size() ? all_[at_] : '\0'; }
  void expect(char c) {
    if (peek() != c) fail(std::string("expected ") + c);
    ++at_;
  }
  void space() {
    while (peek() == ' ' || peek() == '\n') ++at_;
  }

  void check_utf8() {
    for (size_t i = 0; i < all_.size();) {
      const auto c = static_cast<unsigned char>(all_[i]);
      const size_t n = c < 0x80                ? 1
                       : c >= 0xC2 && c < 0xE0 ? 2
                       : c >= 0xE0 && c < 0xF0 ? 3
                       : c >= 0xF0 && c < 0xF5 ? 4
                                               : 0;
      at_ = i;
      if (n == 0 || i + n > all_.size()) fail("not UTF-8");
      for (size_t k = 1; k < n; ++k)
        if ((static_cast<unsigned char>(all_[i + k]) & 0xC0u) != 0x80u) fail("not UTF-8");
      if (c < 0x20 && c != '\n' && c != '\t') fail("control character");
      i += n;
    }
    at_ = 0;
  }

  std::string name() {
    const size_t begin = at_;
    while (is_name_char(peek())) ++at_;
    if (at_ == begin) fail("expected a name");
    return std::string(all_.substr(begin, at_ - begin));
  }

  // Takes one character of text and decodes entities.
  std::string character() {
    if (peek() == '<' || peek() == '>') fail("bare angle bracket");
    if (peek() != '&') return std::string(1, all_[at_++]);
    static const std::map<std::string, std::string> known{
        {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}};
    const size_t end = all_.find(';', at_);
    const auto it =
        end == std::string_view::npos ? known.end() : known.find(std::string(all_.substr(at_, end + 1 - at_)));
    if (it == known.end()) fail("bare & or unknown entity");
    at_ = end + 1;
    return it->second;
  }

  void add_text(const std::string& text) {
    if (open_.empty() && text != "\n") fail("text outside the root element");
    for (const size_t i : open_) elements_[i].text += text;
  }

  void attribute(Element& element) {
    const std::string key = name();
    expect('=');
    expect('"');
    std::string value;
    while (peek() != '"') {
      if (at_ >= all_.size()) fail("unclosed attribute");
      value += character();
    }
    ++at_;
    if (key == "id" && !ids_.insert(value).second) fail("id " + value + " is used twice");
    if (!element.attributes.emplace(key, value).second) fail("attribute " + key + " is given twice");
  }

  void start_tag() {
    expect('<');
    Element element;
    element.name = name();
    for (;;) {
      const size_t before = at_;
      space();
      if (peek() == '>' || peek() == '/') break;
      if (at_ == before) fail("expected a space before an attribute");
      attribute(element);
    }
    const bool closed = peek() == '/';
    if (closed) ++at_;
    expect('>');
    if (open_.empty()) ++roots_;
    elements_.push_back(element);
    if (closed) return;
    open_.push_back(elements_.size() - 1);
    if (element.name == "script" || element.name == "style") {
      const size_t end = all_.find("</" + element.name, at_);
      if (end == std::string_view::npos) fail("<" + element.name + "> is never closed");
      elements_.back().text = std::string(all_.substr(at_, end - at_));
      at_ = end;
    }
  }

  void end_tag() {
    at_ += 2;
    const std::string closing = name();
    if (open_.empty() || elements_[open_.back()].name != closing) fail("</" + closing + "> closes nothing");
    open_.pop_back();
    expect('>');
  }

  std::string_view all_;
  size_t at_ = 0;
  int roots_ = 0;
  std::vector<size_t> open_;
  std::vector<Element> elements_;
  std::set<std::string> ids_;
};

}  // namespace

std::vector<Element> parse_strictly(std::string_view markup) { return Parser(markup).parse(); }

}  // namespace fp::test
