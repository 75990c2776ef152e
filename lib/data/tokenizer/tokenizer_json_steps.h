// Reads the components of a tokenizer.json other than its model. Every type or setting that is not listed here is
// refused with a DataError.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer/json_reader.h"
#include "data/tokenizer/text_steps.h"

namespace fp {

// Reads the normalizer: null, Sequence, Prepend, Replace{String|Regex}, NFC.
std::vector<TextStep> read_normalizer(const JsonValue& json);

struct PreTokenizer {
  std::vector<TextStep> steps;
  bool byte_level = false;  // the model's vocabulary is in GPT-2's byte alphabet
};
// Reads the pre-tokenizer: null, Sequence, ByteLevel (last only), Split{String|Regex}, Metaspace.
PreTokenizer read_pre_tokenizer(const JsonValue& json);

struct PostProcessor {
  std::vector<int32_t> prefix_ids, suffix_ids;  // before and after a single text
};
// Reads the post-processor: null, Sequence, ByteLevel, TemplateProcessing.
PostProcessor read_post_processor(const JsonValue& json);

struct TokenDecoder {
  struct Replacement {
    std::string from, to;
  };
  std::vector<Replacement> replacements;
  bool byte_fallback = false;  // "<0x0A>" decodes to the byte 10
  bool byte_level = false;
  std::string dummy_prefix;  // removed once from the start of the whole text

  // Returns the text that a token of a character vocabulary decodes to.
  std::string text_of(std::string token) const;
};
// Reads the decoder: ByteLevel alone, or Sequence, Replace{String}, ByteFallback, Fuse, Strip{" ", start 0 or 1, stop
// 0}, Metaspace.
TokenDecoder read_decoder(const JsonValue& json);

// Returns the byte value of a fallback token such as "<0x0A>"; -1 for any other text.
int byte_of_fallback_token(std::string_view token);
std::string fallback_token_of(int byte);

}  // namespace fp
