// Added tokens by their written form.
#pragma once

#include <optional>
#include <string_view>

#include "data/tokenizer.h"

namespace fp {

// The id of the added token that is written `content`; nothing when the tokenizer has none.
std::optional<int32_t> special_id(const Tokenizer& tokenizer, std::string_view content);

}  // namespace fp
