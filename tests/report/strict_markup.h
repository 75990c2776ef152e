// A strict reader of markup: what HTML parsers forgive, this refuses. Pages that pass it are well-formed XML but for
// the raw text of <script> and <style>.
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
  std::string text;  // between its start tag and its end tag, tags inside left out, entities decoded
};

// All elements in order of their start tags. Throws std::runtime_error with the offset of the first fault: unclosed or
// crossed tags, unquoted or repeated attributes, a bare & or <, unknown entities, bytes that are not UTF-8, repeated
// ids.
std::vector<Element> parse_strictly(std::string_view markup);

}  // namespace fp::test
