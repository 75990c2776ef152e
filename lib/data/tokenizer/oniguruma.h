// The regular expressions of tokenizer.json are written for Oniguruma in its Ruby syntax; PCRE2 runs them here.
#pragma once

#include <string>

namespace fp {

// `pattern` for class Regex, so that it matches what Oniguruma matches. What means something else in Ruby's syntax is
// translated (\s \S \w \W \h \H \v \uHHHH, script names, line anchors) or refused with a ConfigError that says what
// and where ({n,m}+ and {n}?, {,n}, set operations, options but i, letters behind (?i that are also one character, \b
// and other escapes).
std::string translate_oniguruma(const std::string& pattern);

}  // namespace fp
