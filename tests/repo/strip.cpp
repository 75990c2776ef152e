// Blanks out comments and literals of C++ text, so that the other checks see code only.
#include <algorithm>
#include <cctype>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

class Stripper {
 public:
  explicit Stripper(std::string_view text) : in_(text), out_(text) {}

  std::string run() {
    while (at_ < in_.size()) {
      if (looking_at("//")) {
        comment_starts_.push_back(at_);
        blank_until(in_.find('\n', at_));
      } else if (looking_at("/*")) {
        blank_until(after(in_.find("*/", at_ + 2), 2));
      } else if (looking_at("R\"")) {
        blank_raw_string();
      } else if (in_[at_] == '"') {
        blank_quoted('"');
      } else if (in_[at_] == '\'' && !is_digit_separator()) {
        blank_quoted('\'');
      } else {
        ++at_;
      }
    }
    return out_;
  }
  // Positions of the slashes of all comments, once run.
  const std::vector<size_t>& comment_starts() const { return comment_starts_; }

 private:
  bool looking_at(std::string_view token) const { return in_.substr(at_, token.size()) == token; }
  static size_t after(size_t found, size_t length) {
    return found == std::string_view::npos ? std::string_view::npos : found + length;
  }
  bool is_digit_separator() const {
    return at_ > 0 && at_ + 1 < in_.size() && std::isxdigit(static_cast<unsigned char>(in_[at_ - 1])) &&
           std::isxdigit(static_cast<unsigned char>(in_[at_ + 1]));
  }

  void blank_until(size_t end) {
    if (end == std::string_view::npos) end = in_.size();
    for (; at_ < end; ++at_) {
      if (in_[at_] != '\n') out_[at_] = ' ';
    }
  }
  void blank_quoted(char quote) {
    size_t end = at_ + 1;
    while (end < in_.size() && in_[end] != quote && in_[end] != '\n') end += in_[end] == '\\' ? 2 : 1;
    blank_until(std::min(end + 1, in_.size()));
  }
  void blank_raw_string() {
    const size_t open = in_.find('(', at_);
    if (open == std::string_view::npos) return blank_until(in_.size());
    const std::string close = ")" + std::string(in_.substr(at_ + 2, open - at_ - 2)) + "\"";
    blank_until(after(in_.find(close, open), close.size()));
  }

  std::string_view in_;
  std::string out_;
  std::vector<size_t> comment_starts_;
  size_t at_ = 0;
};

}  // namespace

std::string strip_comments_and_literals(std::string_view text) { return Stripper(text).run(); }

std::vector<Comment> comments_of(std::string_view text) {
  Stripper stripper(text);
  stripper.run();
  std::vector<Comment> comments;
  int line = 1;
  size_t counted = 0;
  for (const size_t start : stripper.comment_starts()) {
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                                        text.begin() + static_cast<std::ptrdiff_t>(start), '\n'));
    counted = start;
    const size_t line_break = text.rfind('\n', start);
    const size_t line_start = line_break == std::string_view::npos ? 0 : line_break + 1;
    comments.push_back({.line = line,
                        .column = static_cast<int>(start - line_start) + 1,
                        .alone = trim(text.substr(line_start, start - line_start)).empty(),
                        .text = trim(text.substr(start + 2, text.find('\n', start) - start - 2))});
  }
  return comments;
}

}  // namespace fp::test
