// A strict markup parser, which refuses the errors that HTML parsers tolerate. Pages that it accepts are well-formed
// XML except for the raw text of <script> and <style>.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fp::test {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // text between its tags, without tags inside, entities decoded
};

// Returns all elements in order of their start tags. Throws std::runtime_error with the offset of the first error:
// unclosed or crossed tags, unquoted or repeated attributes, a bare & or <, unknown entities, bytes that are not UTF-8,
// repeated ids.
std::vector<Element> parse_strictly(std::string_view markup);

}  // namespace fp::test
