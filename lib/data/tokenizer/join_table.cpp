#include "data/tokenizer/join_table.h"

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/string_map.h"

namespace fp {

std::vector<Merge> join_table(const std::vector<RankedToken>& tokens, BpeRules::Symbols symbols) {
  StringMap<int32_t> ids;
  ids.reserve(tokens.size());
  for (const RankedToken& token : tokens) ids.emplace(token.text, token.id);
  const bool characters = symbols == BpeRules::Symbols::characters;
  const auto symbol_of = [&](std::string_view text) -> int32_t {
    if (const auto it = ids.find(text); it != ids.end()) return it->second;
    return characters && utf8_character(text) == text.size() ? kMaxTokenIds + static_cast<int32_t>(utf8_decode(text))
                                                             : -1;
  };
  std::vector<Merge> merges;
  for (const RankedToken& token : tokens) {
    const std::string_view text = token.text;
    FP_CHECK(text.size() <= kMaxTokenBytes, "a token of {} bytes", text.size());
    const auto step = [&](size_t at) { return characters ? utf8_character(text.substr(at)) : 1; };
    for (size_t cut = step(0); cut < text.size(); cut += step(cut)) {
      const int32_t left = symbol_of(text.substr(0, cut));
      if (left < 0) continue;
      const int32_t right = symbol_of(text.substr(cut));
      if (right >= 0) merges.push_back({{left, right}, token.id, token.rank});
    }
  }
  return merges;
}

}  // namespace fp
