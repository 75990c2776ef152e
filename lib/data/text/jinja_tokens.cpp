#include "data/text/jinja_tokens.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "base/shown.h"

namespace fp::jinja {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Divider {
 public:
  Divider(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::vector<Piece> run() {
    for (;;) {
      const size_t open = next_tag();
      add_text(text_.substr(at_, open - at_), open < text_.size() ? text_.substr(open, 3) : "");
      if (open >= text_.size()) break;
      at_ = open;
      read_tag();
    }
    return std::move(pieces_);
  }

 private:
  size_t next_tag() const {
    size_t open = text_.size();
    for (const char* mark : {"{{", "{%", "{#"}) open = std::min(open, text_.find(mark, at_));
    return open;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: chat_template, line {}: {}", where_, line_, what));
  }

  // `tag`: the first characters of the tag behind the text.
  void add_text(std::string_view text, std::string_view tag) {
    line_ += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    if (trim_next_) text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (drop_line_end_ && text.starts_with('\n')) text.remove_prefix(1);
    const bool block = tag.starts_with("{%") || tag.starts_with("{#");
    if (tag.size() > 2 && tag[2] == '-') {
      text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    } else if (block && !(tag.size() > 2 && tag[2] == '+')) {
      const size_t line = text.find_last_not_of(" \t") + 1;  // 0 where all of it is blank
      if (line > 0 ? text[line - 1] == '\n' : at_line_start_) text = text.substr(0, line);
    }
    if (tag.empty() && text.ends_with('\n')) text.remove_suffix(1);  // as Jinja does at the end of a template
    if (!text.empty()) pieces_.push_back({Piece::Kind::text, std::string(text), {}, line_});
  }

  void read_tag() {
    const char kind = text_[at_ + 1];
    at_ += 2;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    if (kind == '#') {
      const size_t end = text_.find("#}", at_);
      if (end == std::string_view::npos) fail("a comment is not closed");
      line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + end, '\n'));
      at_ = end;
      return close('#', text_[end - 1]);
    }
    Piece piece{kind == '{' ? Piece::Kind::output : Piece::Kind::statement, "", {}, line_};
    const std::string_view end = kind == '{' ? "}}" : "%}";
    for (;;) {
      skip_blanks();
      const std::string_view rest = text_.substr(at_);
      if (rest.empty()) fail("a tag is not closed");
      if (depth_ == 0 && rest.starts_with(end)) break;
      if ((rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(end) && depth_ == 0) {
        ++at_;
        break;
      }
      piece.tokens.push_back(read_token());
    }
    piece.tokens.push_back({Token::Kind::end, "", line_});
    pieces_.push_back(std::move(piece));
    close(kind, text_[at_ - 1]);
  }

  // `before`: the character before the end of the tag.
  void close(char kind, char before) {
    at_ += 2;
    trim_next_ = before == '-';
    drop_line_end_ = kind != '{' && before != '+';
    at_line_start_ = false;
    if (drop_line_end_ && at_ < text_.size() && text_[at_] == '\n') at_line_start_ = true;
  }

  void skip_blanks() {
    for (; at_ < text_.size() && kBlanks.find(text_[at_]) != std::string_view::npos; ++at_)
      if (text_[at_] == '\n') ++line_;
  }

  Token read_token() {
    const char c = text_[at_];
    if (c == '\'' || c == '"') return read_text(c);
    const size_t begin = at_;
    if (is_digit(c)) {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      const bool fraction = at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1]);
      for (at_ += fraction ? 1 : 0; fraction && at_ < text_.size() && is_digit(text_[at_]);) ++at_;
      if (at_ - begin > 15) fail("a number with more than 15 digits");
      const auto kind = fraction ? Token::Kind::number : Token::Kind::integer;
      return {kind, std::string(text_.substr(begin, at_ - begin)), line_};
    }
    if (is_name_character(c)) {
      while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
      return {Token::Kind::name, std::string(text_.substr(begin, at_ - begin)), line_};
    }
    static constexpr std::array<std::string_view, 24> kSigns = {"==", "!=", "<=", ">=", "//", "+", "-", "*",
                                                                "/",  "%",  "~",  "<",  ">",  "=", "(", ")",
                                                                "[",  "]",  "{",  "}",  ",",  ":", ".", "|"};
    for (const std::string_view sign : kSigns)
      if (text_.substr(at_).starts_with(sign)) {
        at_ += sign.size();
        if (sign == "{") ++depth_;
        if (sign == "}") depth_ = std::max(depth_ - 1, 0);
        return {Token::Kind::sign, std::string(sign), line_};
      }
    fail(fmt::format("'{}' is not expected here", shown(text_.substr(at_, 1))));
  }

  Token read_text(char quote) {
    Token token{Token::Kind::text, "", line_};
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        token.text += text_[at_];
        continue;
      }
      const char c = text_[++at_];
      const size_t escape = std::string_view("ntr\\'\"").find(c);
      if (escape == std::string_view::npos) fail(fmt::format("the escape '\\{}' in a text", shown({&c, 1})));
      token.text += "\n\t\r\\'\""[escape];
    }
    if (at_ >= text_.size()) fail("a text is not closed");
    ++at_;
    return token;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  bool trim_next_ = false, drop_line_end_ = false, at_line_start_ = true;
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> divide(std::string_view text, const std::string& where) { return Divider(text, where).run(); }

}  // namespace fp::jinja
