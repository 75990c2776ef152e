// Escapes foreign text for messages and terminals: names from files, values of a run spec, text that a model generates.
//
// A terminal obeys escape sequences wherever they come from. These functions write out control characters, characters
// that change the direction of writing, and bytes that are not UTF-8: \x1b, \u202e.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fp {

// Escapes a value for use inside a message: on one line, with "..." after `longest` bytes.
std::string shown(std::string_view value, size_t longest = 60);

// Escapes a text for printing: the whole of it, with line breaks and tabs unchanged.
std::string printable(std::string_view text);

// Returns `text` unchanged if standard output is a file or a pipe, and printable(text) if it is a terminal.
std::string for_stdout(std::string text);

}  // namespace fp
