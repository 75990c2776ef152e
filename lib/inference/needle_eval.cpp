#include "inference/needle_eval.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "inference/text_generation.h"

namespace fp {
namespace {

constexpr SamplingOptions kGreedy{.temperature = 0};

bool answers(Model& model, const Tokenizer& tokenizer, const NeedleSample& sample, int64_t capacity) {
  Decoder decoder(model, capacity);
  std::span<const int32_t> next = sample.prompt;
  for (size_t i = 0; i < sample.answer.size(); ++i) {
    if (sample_token(logits_of_tokens(decoder.append(next), tokenizer), kGreedy, 0) != sample.answer[i]) return false;
    next = std::span(sample.answer).subspan(i, 1);
  }
  return true;
}

}  // namespace

void check_needle_options(const NeedleOptions& o, const KeyValueTexts& texts) {
  if (o.samples < 1)
    throw ConfigError(
        fmt::format("--samples {}: recall needs samples of each length and depth: legal: 1 or more", o.samples));
  if (o.depths.empty() || o.depths.size() > KeyValueTexts::kMostPairs)
    throw ConfigError(fmt::format("--depths: {} depths; legal: 1 to {}", o.depths.size(), KeyValueTexts::kMostPairs));
  for (const double depth : o.depths)
    if (!(depth >= 0 && depth <= 100)) throw ConfigError(fmt::format("--depths {}: legal: 0 to 100 percent", depth));
  if (std::set(o.depths.begin(), o.depths.end()).size() != o.depths.size())
    throw ConfigError("--depths: a depth is given twice; legal: different ones");
  if (o.lengths.empty()) throw ConfigError("--lengths: name at least one length");
  const int64_t shortest = texts.shortest_needle(o.depths.size());
  for (const int64_t length : o.lengths)
    if (length < shortest)
      throw ConfigError(
          fmt::format("--lengths {}: {} pairs and a question need {} tokens: legal: {} or more, or fewer "
                      "--depths",
                      length, o.depths.size(), shortest, shortest));
  if (std::set(o.lengths.begin(), o.lengths.end()).size() != o.lengths.size())
    throw ConfigError("--lengths: a length is given twice; legal: different ones");
}

std::vector<NeedleRecall> measure_recall(Model& model, const Tokenizer& tokenizer, const KeyValueTexts& texts,
                                         const NeedleOptions& o, const std::function<void(int64_t)>& on_progress) {
  const int64_t capacity = *std::max_element(o.lengths.begin(), o.lengths.end());
  std::vector<NeedleRecall> all;
  int64_t done = 0;
  for (const int64_t length : o.lengths)
    for (size_t d = 0; d < o.depths.size(); ++d) {
      NeedleRecall& cell = all.emplace_back(NeedleRecall{length, o.depths[d]});
      for (; cell.samples < o.samples; ++cell.samples) {
        const KeyValueSeed seed{o.seed, static_cast<uint64_t>(cell.samples), kNeedleStream + static_cast<uint32_t>(d)};
        if (answers(model, tokenizer, texts.needle(length, o.depths, d, seed), capacity)) ++cell.right;
        if (on_progress) on_progress(++done);
      }
    }
  return all;
}

}  // namespace fp
