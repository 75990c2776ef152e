// Prefetching the batches of the next step: each step gets its own batches and its own errors.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "train/batch_prefetch.h"

namespace fp {
namespace {

// Batches of one row whose sample ids begin at `first`.
void fill_step(uint64_t first, std::vector<Batch>& batches) {
  batches.resize(2);
  for (size_t i = 0; i < batches.size(); ++i) {
    batches[i].resize(1, 4);
    batches[i].sample_ids[0] = first + i;
  }
}

TEST_CASE("each step gets the batches of its own samples, prefetched or not") {
  BatchPrefetch prefetch(fill_step);
  std::vector<Batch> batches;
  const auto first_taken = [&](uint64_t first, std::optional<uint64_t> next) {
    prefetch.take(first, next, batches);
    REQUIRE(batches.size() == 2);
    return batches[0].sample_ids[0] == first && batches[1].sample_ids[0] == first + 1;
  };
  int wrong = 0;
  for (uint64_t first = 0; first < 400; first += 2) wrong += !first_taken(first, first + 2);
  CHECK(wrong == 0);
  CHECK(first_taken(1000, 1002));  // not the prefetched step
  CHECK(first_taken(1000, 1002));  // the same step again
  CHECK(first_taken(1002, std::nullopt));
  CHECK(first_taken(1004, std::nullopt));
}

TEST_CASE("one step is prefetched, and none after the last") {
  std::vector<uint64_t> loaded;
  std::vector<Batch> batches;
  {
    BatchPrefetch prefetch([&](uint64_t first, std::vector<Batch>& b) {
      loaded.push_back(first);
      fill_step(first, b);
    });
    prefetch.take(0, 2, batches);
    prefetch.take(2, 4, batches);
    prefetch.take(4, std::nullopt, batches);
  }
  CHECK(loaded == std::vector<uint64_t>{0, 2, 4});
}

TEST_CASE("an error while prefetching is thrown only in the step that needs the samples") {
  BatchPrefetch prefetch([](uint64_t first, std::vector<Batch>& batches) {
    if (first == 2) throw DataError("sample 2 is bad");
    fill_step(first, batches);
  });
  std::vector<Batch> batches;
  prefetch.take(0, 2, batches);
  CHECK(batches[0].sample_ids[0] == 0);
  CHECK_THROWS_AS(prefetch.take(2, 4, batches), DataError);
  CHECK_THROWS_AS(prefetch.take(2, 4, batches), DataError);
  prefetch.take(4, std::nullopt, batches);
  CHECK(batches[0].sample_ids[0] == 4);
}

TEST_CASE("an error in samples that no step requests is ignored") {
  BatchPrefetch prefetch([](uint64_t first, std::vector<Batch>& batches) {
    if (first == 2) throw DataError("sample 2 is bad");
    fill_step(first, batches);
  });
  std::vector<Batch> batches;
  prefetch.take(0, 2, batches);
  prefetch.take(6, std::nullopt, batches);
  CHECK(batches[0].sample_ids[0] == 6);
}

}  // namespace
}  // namespace fp
