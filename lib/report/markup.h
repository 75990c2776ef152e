// Text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace fp {

// Safe between tags and inside quoted attributes: & < > " ' become entities, bytes that are not UTF-8 and control
// characters other than tab and newline become U+FFFD. Sampled text may hold any bytes.
std::string escape_markup(std::string_view text);

}  // namespace fp
