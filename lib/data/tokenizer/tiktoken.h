// tiktoken's rank files: lines "base64(token) rank", where the rank is the id and orders the merges.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/source.h"

namespace fp {

// The splitting pattern of cl100k and of Llama 3.
extern const char* const kCl100kPattern;

bool looks_like_tiktoken(std::string_view content);

// What the number of ranks says about pattern and special tokens:
//   50256   GPT-2's pattern; <|endoftext|> 50256
//   100256  cl100k; <|endoftext|> 100257, <|fim_prefix|>, <|fim_middle|>, <|fim_suffix|>, <|endofprompt|> 100276
//   128000  Llama 3: cl100k's pattern, 256 special tokens, <|begin_of_text|> in front of a text
// Any other number has cl100k's pattern and needs the added tokens of a folder, which replace those above where given.
// DataError for other lines, ranks that repeat, and single bytes without a rank.
TokenizerDefinition parse_tiktoken(const TokenizerSource& source, const std::string& where);

// What phi-3-small adds to cl100k: <|system|> 100261, <|user|>, <|assistant|>, <|end|> 100266.
std::vector<AddedToken> phi3_small_tokens();

}  // namespace fp
