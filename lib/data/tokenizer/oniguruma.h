// Translates the regular expressions of tokenizer.json, which are in Oniguruma's Ruby syntax, for PCRE2.
#pragma once

#include <string>

namespace fp {

// Returns a pattern with which class Regex matches exactly what Oniguruma matches with `pattern`. Constructs that
// differ in Ruby's syntax are translated (\s \S \w \W \h \H \v \uHHHH, script names, line anchors) or refused with a
// ConfigError that names the construct and its position ({n,m}+ and {n}?, {,n}, set operations, options other than i,
// letters after (?i that are also one character, \b and other escapes).
std::string translate_oniguruma(const std::string& pattern);

}  // namespace fp
