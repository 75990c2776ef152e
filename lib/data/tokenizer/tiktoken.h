// Parses tiktoken's rank files: lines "base64(token) rank", where the rank is the id and the priority of the merge.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/source.h"

namespace fp {

// The pre-tokenizer's pattern of cl100k and Llama 3.
extern const char* const kCl100kPattern;

bool looks_like_tiktoken(std::string_view content);

// Parses a rank file. The number of ranks determines the pattern and the special tokens:
//   50256   GPT-2's pattern; <|endoftext|> 50256
//   100256  cl100k; <|endoftext|> 100257, <|fim_prefix|>, <|fim_middle|>, <|fim_suffix|>, <|endofprompt|> 100276
//   128000  Llama 3: cl100k's pattern, 256 special tokens, <|begin_of_text|> in front of a text
// With any other number cl100k's pattern is used and the added tokens of a folder are required; where a folder has
// added tokens, they replace those above. Throws DataError for malformed lines, repeated ranks, and single bytes
// without a rank.
TokenizerDefinition parse_tiktoken(const TokenizerSource& source, const std::string& where);

// The special tokens of phi-3-small: those of cl100k, and <|system|> 100261, <|user|>, <|assistant|>, <|end|> 100266.
std::vector<AddedToken> phi3_small_tokens();

}  // namespace fp
