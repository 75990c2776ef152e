#include "data/prepare/train_tokenizer.h"

#include <vector>

#include "base/error.h"
#include "base/task_progress.h"
#include "data/prepare/parallel_documents.h"
#include "data/text/text_census.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer_json.h"

namespace fp {
namespace {

WordCounts count_corpus(const CorpusOptions& corpus) {
  const Regex pattern(kGpt2Pattern);
  std::vector<PieceSplitter> splitters;
  std::vector<WordCounts> counts(static_cast<size_t>(max_threads()));
  for (size_t t = 0; t < counts.size(); ++t) splitters.emplace_back(&pattern);
  CorpusReader reader(corpus);
  TextCensus census(corpus);
  TaskProgress progress("counting words");
  process_documents(
      reader,
      [&](const DocumentBatch& batch, int thread) {
        std::string scratch;
        const auto t = static_cast<size_t>(thread);
        for (size_t i = 0; i < batch.size(); ++i) count_words(batch.text(i, scratch), splitters[t], counts[t]);
        return count_text(batch);
      },
      [&](const BatchCount& more) { census.add(more); },
      [&](uint64_t done, uint64_t total) { progress.update(done, total, "MB", 1e6); });
  census.require_text();
  for (size_t t = 1; t < counts.size(); ++t) {
    for (const auto& [word, n] : counts[t]) counts[0][word] += n;
    counts[t].clear();
  }
  return std::move(counts[0]);
}

}  // namespace

const std::vector<std::string>& default_special_tokens() {
  static const std::vector<std::string> tokens = {"<|im_start|>",  "<|im_end|>", "<|system|>",     "<|user|>",
                                                  "<|assistant|>", "<|end|>",    "<|reserved_0|>", "<|reserved_1|>"};
  return tokens;
}

std::string train_tokenizer(const TrainTokenizerOptions& options, std::vector<SkippedInput>* skipped) {
  BpeTrainerOptions trainer;
  trainer.vocab_size = options.vocab_size;
  trainer.special_tokens = options.special_tokens;
  trainer.min_frequency = options.min_frequency;
  check(trainer);
  CorpusOptions corpus = options.corpus;
  Inputs inputs = find_inputs(corpus.files, corpus.format);
  corpus.files = std::move(inputs.files);
  // Documents matter little to words, so a large file needs neither memory for all of it nor a single thread.
  corpus.part_bytes = uint64_t{1} << 20;
  if (skipped) *skipped = std::move(inputs.skipped);
  const WordCounts words = count_corpus(corpus);
  if (words.empty()) throw DataError("the input files hold no text: there is nothing to learn a vocabulary from");
  TaskProgress progress("learning merges");
  trainer.on_progress = [&](int64_t done, int64_t total) {
    progress.update(static_cast<uint64_t>(done), static_cast<uint64_t>(total), "merges", 1.0);
  };
  return write_tokenizer_json(vocabulary_of(train_bpe(words, trainer), options.special_tokens));
}

}  // namespace fp
