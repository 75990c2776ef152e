// Boxes that the prefetch thread reads arrive in order and complete, and errors at the box that they belong to.
#include <catch2/catch.hpp>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/read_ahead.h"

namespace fp::test {
namespace {

constexpr int64_t kPerJob = 1000;

// Returns elements 0, 1, 2... of an endless vector; records the calling thread and how far it is ahead.
class Counting : public TensorReader {
 public:
  void read(const std::string& param, const std::string&, const Box& box, float* data, const h5::Window&) override {
    if (param == "bad") throw DataError("no such tensor");
    std::iota(data, data + box.count.elements(), static_cast<float>(box.start[0]));
    threads = max_threads();
    ++reads;
  }
  std::atomic<int> reads = 0, threads = 0;
};

ReadJob job(int64_t number, float* to = nullptr) {
  return {"w", kParamState, {{{number * kPerJob}, {kPerJob}}, number * kPerJob}, to};
}

bool are_of(const float* values, int64_t number) {
  for (int64_t i = 0; i < kPerJob; ++i)
    if (values[i] != static_cast<float>(number * kPerJob + i)) return false;
  return true;
}

}  // namespace

TEST_CASE("prefetched boxes arrive in order, in buffers or at their destination") {
  Counting reader;
  std::vector<float> there(kPerJob);
  std::vector<ReadJob> jobs;
  for (int64_t i = 0; i < 50; ++i) jobs.push_back(job(i, i == 7 ? there.data() : nullptr));
  set_threads(3);
  ReadAhead numbers(reader, jobs);
  for (int64_t i = 0; i < 50; ++i) {
    const float* values = numbers.next();
    CHECK(are_of(values, i));
    if (i == 7) CHECK(values == there.data());
  }
  set_threads(0);
  CHECK(reader.reads == 50);
  CHECK(reader.threads == 3);
}

TEST_CASE("an error while prefetching is thrown when that box is requested") {
  Counting reader;
  std::vector<ReadJob> jobs{job(0), job(1), job(2)};
  jobs[1].param = "bad";
  ReadAhead numbers(reader, jobs);
  CHECK(are_of(numbers.next(), 0));
  CHECK_THROWS_WITH(numbers.next(), "no such tensor");
  CHECK(reader.reads == 1);
}

TEST_CASE("prefetching stays within its buffers, and stops in the destructor") {
  Counting reader;
  {
    std::vector<ReadJob> jobs;
    for (int64_t i = 0; i < 50; ++i) jobs.push_back(job(i));
    ReadAhead numbers(reader, jobs);
    CHECK(are_of(numbers.next(), 0));
  }
  CHECK(reader.reads <= 3);
  { const ReadAhead nothing(reader, {}); }
}

}  // namespace fp::test
