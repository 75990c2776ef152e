// Samples tokens from logits and generates text with a model.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "model/decoder.h"

namespace fp {

struct SamplingOptions {
  double temperature = 1.0;  // 0: greedy
  int64_t top_k = 0;         // 0: off
  double top_p = 1.0;        // 1: off
  uint64_t seed = 0;
};

// Returns the next token at `position`, a pure function of its arguments. Applies temperature, top-k and top-p in this
// order; ties go to the lower id.
int32_t sample_token(std::span<const float> logits, const SamplingOptions&, int64_t position);

// Returns the logits with those of ids that are not in the tokenizer at -infinity: many models have more ids.
std::vector<float> logits_of_tokens(std::span<const float> logits, const Tokenizer&);

struct GenerationOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 200;
  std::vector<int32_t> stop_ids;    // end the text; they are not written
  bool token_by_token = false;      // append the prompt so, too, which needs less memory at a time
  std::function<bool()> stop = {};  // called before each new token: whether to end there
};

struct GenerationResult {
  int64_t prompt_tokens = 0, new_tokens = 0;
  bool stopped = false;                 // by a stop id
  bool interrupted = false;             // by GenerationOptions::stop
  std::vector<int32_t> not_in_context;  // new tokens that the decoder has not seen yet: the last one, unless it stopped
};

// Returns the ids of a prompt: the tokens that the tokenizer puts before a text (<s>), then the text. An empty prompt
// becomes the end-of-text token.
std::vector<int32_t> prompt_tokens(const Tokenizer&, const std::string& prompt);

// Continues `prompt`, calling `emit` with each complete piece of new text. Ids beyond the tokenizer's vocabulary are
// never sampled. Throws ConfigError when the prompt leaves no space in the decoder's context.
GenerationResult generate(Decoder&, const Tokenizer&, const std::string& prompt, const GenerationOptions&,
                          const std::function<void(const std::string&)>& emit);
// The same for a prompt of at least one id, behind what the decoder holds already. The new text is `at_start` if no
// text precedes it.
GenerationResult generate(Decoder&, const Tokenizer&, std::vector<int32_t> prompt, bool at_start,
                          const GenerationOptions&, const std::function<void(const std::string&)>& emit);

}  // namespace fp
