#include "data/prepare/key_value_corpus.h"

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"
#include "base/task_progress.h"
#include "data/prepare/convert.h"
#include "data/prepare/dataset_writer.h"
#include "data/text/key_values.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Streams of KeyValueSeed.
constexpr uint32_t kDocuments = 1, kLengths = 2;

constexpr int64_t kGreatestLength = int64_t{1} << 30, kMaxTokens = int64_t{1} << 44;

void check(const KeyValueCorpusOptions& o) {
  if (o.samples < 1) throw ConfigError(fmt::format("--samples {}: legal: 1 or more", o.samples));
  if (o.lengths.empty()) throw ConfigError("--lengths: name at least one length");
  const int64_t greatest = *std::max_element(o.lengths.begin(), o.lengths.end());
  if (greatest > kGreatestLength)
    throw ConfigError(fmt::format("--lengths {}: legal: at most {} tokens", greatest, kGreatestLength));
  if (o.samples > kMaxTokens / std::max<int64_t>(greatest, 1))
    throw ConfigError(fmt::format("--samples {}: of {} tokens each; legal: at most {} tokens in all", o.samples,
                                  greatest, kMaxTokens));
  for (const int64_t length : o.lengths) {
    if (length <= KeyValueTexts::kShortestDocument)
      throw ConfigError(
          fmt::format("--lengths {}: legal: more than {} tokens", length, KeyValueTexts::kShortestDocument));
    if (greatest % length != 0)
      throw ConfigError(
          fmt::format("--lengths {}: does not divide the greatest length, {}, which documents of it have to fill",
                      length, greatest));
  }
}

}  // namespace

KeyValueCorpusResult write_key_value_corpus(const KeyValueCorpusOptions& given) {
  check(given);
  const fs::path out = check_prepared_target(given.out, given.overwrite, given.filler);
  const std::shared_ptr<const Dataset> source = open_dataset(given.filler, Split::train);
  const KeyValueTexts texts(source->tokenizer(), Filler(source));
  const auto writer = make_prepared_writer(out, source->tokenizer(), "data key-values");
  TaskProgress progress("writing samples");
  const int64_t greatest = *std::max_element(given.lengths.begin(), given.lengths.end());
  const auto asked = given.ask_at_end ? KeyValueTexts::Asked::at_end : KeyValueTexts::Asked::anywhere;
  KeyValueCorpusResult result;
  for (int64_t sample = 0; sample < given.samples; ++sample) {
    const auto at = static_cast<uint64_t>(sample);
    const uint32_t drawn = Philox::block({0, kLengths, static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32)},
                                         Philox::key(given.seed, Purpose::key_values))[0];
    const int64_t length = given.lengths[drawn % given.lengths.size()];
    for (int64_t i = 0; i < greatest / length; ++i) {
      const bool last = sample + 1 == given.samples && (i + 1) * length == greatest;
      const std::vector<int32_t> body =
          texts.document(length - 1 + (last ? 1 : 0), asked, {given.seed, result.documents, kDocuments});
      writer->append(body, body);
      ++result.documents;
    }
    progress.update(at + 1, static_cast<uint64_t>(given.samples), "samples", 1);
  }
  writer->finish();
  result.tokens = writer->tokens();
  return result;
}

}  // namespace fp
