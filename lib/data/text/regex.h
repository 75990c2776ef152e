// Regular expressions over well-formed UTF-8 (PCRE2 with Unicode properties, compiled to machine code).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace fp {

// A compiled pattern; any number of threads may share one.
class Regex {
 public:
  // Throws ConfigError with the position of the mistake when the pattern is malformed.
  explicit Regex(const std::string& pattern);
  // Returns whether the pattern can match an empty text.
  bool can_match_nothing() const;

 private:
  friend class RegexMatcher;
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

// Matches a Regex with the scratch memory of one thread. The Regex must outlive it.
class RegexMatcher {
 public:
  struct Match {
    size_t begin, end;  // byte offsets into the text, begin < end
  };

  explicit RegexMatcher(const Regex& regex);
  // Returns the first non-empty match at or after `from`. The text must be well-formed UTF-8.
  std::optional<Match> find(std::string_view text, size_t from);
  // Returns whether the pattern matches anywhere, empty matches (`^`, a lookahead) included.
  bool occurs_in(std::string_view text);

 private:
  bool run(std::string_view text, size_t from, uint32_t options);
  struct Free {
    void operator()(pcre2_real_match_data_8* data) const;
    void operator()(pcre2_real_match_context_8* context) const;
    void operator()(pcre2_real_jit_stack_8* stack) const;
  };
  const Regex* regex_;
  std::unique_ptr<pcre2_real_jit_stack_8, Free> stack_;
  std::unique_ptr<pcre2_real_match_context_8, Free> context_;
  std::unique_ptr<pcre2_real_match_data_8, Free> data_;
};

}  // namespace fp
