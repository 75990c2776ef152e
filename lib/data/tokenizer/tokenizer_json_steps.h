// The parts of a tokenizer.json around its model. Every type and setting that is not named here is a DataError.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer/json_reader.h"
#include "data/tokenizer/text_steps.h"

namespace fp {

// null, Sequence, Prepend, Replace{String|Regex}, NFC.
std::vector<TextStep> read_normalizer(const JsonValue& json);

struct PreTokenizer {
  std::vector<TextStep> steps;
  bool byte_level = false;  // the model's vocabulary is written in GPT-2's byte alphabet
};
// null, Sequence, ByteLevel (last of all), Split{String|Regex}, Metaspace.
PreTokenizer read_pre_tokenizer(const JsonValue& json);

struct PostProcessor {
  std::vector<int32_t> prefix_ids, suffix_ids;  // of a single text
};
// null, Sequence, ByteLevel, TemplateProcessing.
PostProcessor read_post_processor(const JsonValue& json);

struct TokenDecoder {
  struct Replacement {
    std::string from, to;
  };
  std::vector<Replacement> replacements;
  bool byte_fallback = false;  // "<0x0A>" is the byte 10
  bool byte_level = false;
  std::string dummy_prefix;  // dropped once from the start of the whole text

  // What a token of a character vocabulary stands for inside a text.
  std::string text_of(std::string token) const;
};
// ByteLevel alone, or Sequence, Replace{String}, ByteFallback, Fuse, Strip{" ", start 0 or 1, stop 0}, Metaspace.
TokenDecoder read_decoder(const JsonValue& json);

// The byte value of "<0x0A>"; -1 for anything else.
int byte_of_fallback_token(std::string_view token);
std::string fallback_token_of(int byte);

}  // namespace fp
