#include "data/special_tokens.h"

#include <string>

namespace fp {

std::optional<int32_t> special_id(const Tokenizer& tokenizer, std::string_view content) {
  const auto ids = tokenizer.encode(content, SpecialText::as_token);
  if (ids.size() != 1 || ids == tokenizer.encode(content, SpecialText::as_text)) return std::nullopt;
  return ids.front();
}

bool strips_after(const Tokenizer& tokenizer, std::string_view content) {
  const std::string token(content);
  return tokenizer.encode(token + "\nx") == tokenizer.encode(token + "x");
}

bool strips_before(const Tokenizer& tokenizer, std::string_view content) {
  const std::string token(content);
  return tokenizer.encode("x\n" + token) == tokenizer.encode("x" + token);
}

}  // namespace fp
