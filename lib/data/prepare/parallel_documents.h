// Processes documents on all cores: the next documents are read while the current ones are processed.
#pragma once

#include <exception>
#include <future>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "data/text/corpus.h"

namespace fp {

// Calls process(batch, thread) -> Result for every batch of documents, on all threads, and then consume(result) on the
// calling thread in the order of the text. Of several exceptions, the one of the earliest batch is rethrown. Memory:
// two rounds of batches, each at most 4 MiB per thread plus one document. on_progress(bytes read, total bytes) is
// called between rounds.
template <class Process, class Consume, class Progress>
void process_documents(CorpusReader& reader, Process&& process, Consume&& consume, Progress&& on_progress) {
  constexpr size_t kBatchBytes = size_t{1} << 20, kBatchesPerThread = 4;
  struct Round {
    std::vector<DocumentBatch> batches;
    uint64_t position = 0;
  };
  const size_t batches_per_round = kBatchesPerThread * static_cast<size_t>(max_threads());
  const auto read_round = [&] {
    Round round;
    DocumentBatch batch;
    for (size_t taken = 0; round.batches.size() < batches_per_round && taken < batches_per_round * kBatchBytes;) {
      if (!reader.next(kBatchBytes, batch)) break;
      taken += batch.memory();
      round.batches.push_back(std::move(batch));
    }
    round.position = reader.position();
    return round;
  };

  using Result = decltype(process(std::declval<const DocumentBatch&>(), 0));
  static_assert(!std::is_same_v<Result, bool>, "threads cannot write neighbouring elements of a vector<bool>");
  std::future<Round> next = std::async(std::launch::async, read_round);
  for (;;) {
    const Round round = next.get();
    if (round.batches.empty()) return;
    next = std::async(std::launch::async, read_round);
    std::vector<Result> results(round.batches.size());
    std::vector<std::exception_ptr> errors(round.batches.size());
    parallel_each(static_cast<int64_t>(results.size()), [&](int64_t batch, int thread) {
      const auto i = static_cast<size_t>(batch);
      try {
        results[i] = process(round.batches[i], thread);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
    for (size_t i = 0; i < results.size(); ++i) {
      if (errors[i]) std::rethrow_exception(errors[i]);
      consume(std::move(results[i]));
    }
    on_progress(round.position, reader.total());
  }
}

}  // namespace fp
