#include "data/special_tokens.h"

#include <vector>

namespace fp {

std::optional<int32_t> special_id(const Tokenizer& tokenizer, std::string_view content) {
  const auto ids = tokenizer.encode(content, SpecialText::as_token);
  if (ids.size() != 1 || ids == tokenizer.encode(content, SpecialText::as_text)) return std::nullopt;
  return ids.front();
}

}  // namespace fp
