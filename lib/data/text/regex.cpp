#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/text/regex.h"

#include <pcre2.h>

#include "base/error.h"

namespace fp {
namespace {

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

void Regex::Free::operator()(pcre2_code* code) const { pcre2_code_free(code); }
void RegexMatcher::Free::operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
void RegexMatcher::Free::operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
void RegexMatcher::Free::operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }

Regex::Regex(const std::string& pattern) {
  int code = 0;
  PCRE2_SIZE at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &code,
                            &at, nullptr));
  if (!code_)
    throw ConfigError(fmt::format("regular expression '{}', character {}: {}", pattern, at + 1, message_of(code)));
  // On CPUs without a JIT back end PCRE2 interprets the pattern: slower, with the same matches.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

bool Regex::can_match_nothing() const {
  uint32_t result = 0;
  FP_CHECK(pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &result) == 0, "PCRE2 has no such fact");
  return result != 0;
}

RegexMatcher::RegexMatcher(const Regex& regex)
    : regex_(&regex),
      stack_(pcre2_jit_stack_create(size_t{1} << 15, size_t{1} << 22, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      data_(pcre2_match_data_create(1, nullptr)) {
  FP_CHECK(stack_ && context_ && data_, "PCRE2 could not allocate its scratch memory");
  pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
}

bool RegexMatcher::run(std::string_view text, size_t from, uint32_t options) {
  const int n = pcre2_match(regex_->code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                            PCRE2_NO_UTF_CHECK | options, data_.get(), context_.get());
  // 0 only means that the capture groups, which are not used, did not fit.
  if (n >= 0) return true;
  if (n == PCRE2_ERROR_NOMATCH) return false;
  throw DataError(fmt::format("regular expression failed on a text of {} bytes: {}", text.size(), message_of(n)));
}

std::optional<RegexMatcher::Match> RegexMatcher::find(std::string_view text, size_t from) {
  if (!run(text, from, PCRE2_NOTEMPTY)) return std::nullopt;
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data_.get());
  return Match{span[0], span[1]};
}

bool RegexMatcher::occurs_in(std::string_view text) { return run(text, 0, 0); }

}  // namespace fp
