#include "inference/text_generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/philox.h"
#include "base/progress.h"

namespace fp {
namespace {

struct Candidate {
  double p;
  int32_t id;
};

// Orders by descending probability; ties by id, so that the order is the same everywhere.
bool before(const Candidate& a, const Candidate& b) { return a.p != b.p ? a.p > b.p : a.id < b.id; }

// Candidates with probabilities at the given temperature, ids of probability 0 left out.
std::vector<Candidate> probabilities(std::span<const float> logits, double temperature) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> c;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp((logits[i] - top) / temperature);
    if (p > 0) c.push_back({p, static_cast<int32_t>(i)});
    sum += p;
  }
  for (Candidate& x : c) x.p /= sum;
  return c;
}

void check_logits(std::span<const float> logits, int64_t position) {
  bool any_finite = false;
  for (const float x : logits) {
    if (std::isnan(x) || x == std::numeric_limits<float>::infinity())
      throw DataError(
          fmt::format("the model computes a logit of {} at position {}: its weights are not those of a "
                      "working model (`fptrain checkpoint inspect` shows values that are not finite)",
                      x, position));
    any_finite = any_finite || std::isfinite(x);
  }
  if (!any_finite) throw DataError(fmt::format("the model computes no finite logit at position {}", position));
}

}  // namespace

int32_t sample_token(std::span<const float> logits, const SamplingOptions& o, int64_t position) {
  check_logits(logits, position);
  if (o.temperature <= 0) return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<Candidate> c = probabilities(logits, o.temperature);
  std::sort(c.begin(), c.end(), before);
  if (o.top_k > 0 && static_cast<size_t>(o.top_k) < c.size()) c.resize(static_cast<size_t>(o.top_k));
  double total = std::accumulate(c.begin(), c.end(), 0.0, [](double s, const Candidate& x) { return s + x.p; });
  if (o.top_p < 1.0) {
    double kept = 0;
    size_t n = 0;
    while (n < c.size() && kept < o.top_p * total) kept += c[n++].p;
    c.resize(std::max<size_t>(n, 1));
    total = kept;
  }
  const auto p = static_cast<uint64_t>(position);
  const auto words = Philox::block({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), 0, 0},
                                   Philox::key(o.seed, Purpose::sampling));
  double at = (static_cast<double>(words[0]) + 0.5) * 0x1p-32 * total;
  for (const Candidate& x : c)
    if ((at -= x.p) < 0) return x.id;
  return c.back().id;
}

std::vector<float> logits_of_tokens(std::span<const float> logits, const Tokenizer& tokenizer) {
  std::vector<float> known(logits.begin(), logits.end());
  for (size_t i = 0; i < known.size(); ++i)
    if (!tokenizer.is_id(static_cast<int32_t>(i))) known[i] = -std::numeric_limits<float>::infinity();
  return known;
}

std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> tokens(tokenizer.prefix_ids().begin(), tokenizer.prefix_ids().end());
  const std::vector<int32_t> text = tokenizer.encode(prompt);
  tokens.insert(tokens.end(), text.begin(), text.end());
  if (tokens.empty()) tokens.push_back(tokenizer.eot());
  return tokens;
}

GenerationResult generate(Decoder& decoder, const Tokenizer& tokenizer, const std::string& prompt,
                          const GenerationOptions& options, const std::function<void(const std::string&)>& emit) {
  return generate(decoder, tokenizer, prompt_tokens(tokenizer, prompt), prompt.empty(), options, emit);
}

GenerationResult generate(Decoder& decoder, const Tokenizer& tokenizer, std::vector<int32_t> tokens, bool at_start,
                          const GenerationOptions& options, const std::function<void(const std::string&)>& emit) {
  GenerationResult result;
  result.prompt_tokens = static_cast<int64_t>(tokens.size());
  if (decoder.length() + result.prompt_tokens >= decoder.capacity())
    throw ConfigError(fmt::format("the prompt has {} tokens, the context holds {}: shorten the prompt",
                                  decoder.length() + result.prompt_tokens, decoder.capacity()));
  StreamingDecoder text(tokenizer, at_start);
  while (result.new_tokens < options.max_tokens) {
    if (options.stop && options.stop()) {
      result.interrupted = true;
      return result;
    }
    const size_t at_a_time = options.token_by_token ? 1 : tokens.size();
    std::span<const float> all;
    for (size_t i = 0; i < tokens.size(); i += at_a_time) all = decoder.append(std::span(tokens).subspan(i, at_a_time));
    progress();
    const int32_t id = sample_token(logits_of_tokens(all, tokenizer), options.sampling, decoder.length());
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end()) {
      result.stopped = true;
      result.not_in_context.clear();
      break;
    }
    ++result.new_tokens;
    if (const std::string piece = text.push(id); !piece.empty()) emit(piece);
    result.not_in_context = {id};
    if (decoder.length() >= decoder.capacity()) break;
    tokens = {id};
  }
  if (const std::string rest = text.finish(); !rest.empty()) emit(rest);
  return result;
}

}  // namespace fp
