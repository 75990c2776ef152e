// Escapes text for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace fp {

// Returns `text` escaped for use between tags and inside quoted attributes: & < > " ' become entities; bytes that are
// not UTF-8 and control characters other than tab and newline become U+FFFD. `text` may hold any bytes, as sampled text
// does.
std::string escape_markup(std::string_view text);

}  // namespace fp
