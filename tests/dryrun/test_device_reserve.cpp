// GPU memory reserved for libraries, on devices that are only described.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "config/load.h"
#include "dryrun/device_reserve.h"
#include "dryrun/dry_run.h"

using namespace fp;
using Catch::Matchers::Contains;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

RunSpec small_run(const std::string& parallel) {
  return parse_run_spec(
      "model: {preset: gpt2, layers: 4}\ndata: {seq_len: 64}\n"
      "train: {micro_batch: 1, global_batch: 8}\nparallel: " +
          parallel,
      "test");
}

// A GPU with this many free bytes.
std::unique_ptr<CountingOps> described_gpu(size_t free) { return make_counting_ops(nullptr, DeviceMemory{0, free}); }

size_t reserved(const std::string& parallel, const Mesh& mesh, int rank) {
  const RunSpec spec = small_run(parallel);
  return dry_run(spec, spec.model, *described_gpu(size_t{64} << 30), mesh, rank).reserved_bytes;
}

}  // namespace

TEST_CASE("a single rank on a GPU reserves memory for cuBLAS and cuDNN") {
  CHECK(reserved("{data: 1}", {}, 0) == 768 * kMiB);
}

TEST_CASE("every communicator that moves tensors adds to the reserve") {
  CHECK(reserved("{data: 2}", Mesh(1, 2, 1, 1, 2), 0) == (768 + 512) * kMiB);
  CHECK(reserved("{data: 2, tensor: 2}", Mesh(1, 2, 1, 2, 4), 3) == (768 + 2 * 512) * kMiB);
}

TEST_CASE("neighbouring pipeline ranks add communicators, those in the middle more of them") {
  const std::string four = "{pipeline: {ranks: 4, schedule: 1f1b}}";
  // gpt2 ties its embedding to the LM head: the first and the last rank sum the gradients over a group.
  CHECK(reserved(four, Mesh(4, 1, 1, 1, 4), 0) == (768 + 128 + 512) * kMiB);
  CHECK(reserved(four, Mesh(4, 1, 1, 1, 4), 1) == (768 + 2 * 128) * kMiB);
  // However many stages two ranks have in common.
  CHECK(reserved("{pipeline: {ranks: 2, schedule: interleaved, chunks: 2}}", Mesh(2, 1, 1, 1, 2), 0) ==
        (768 + 128 + 512) * kMiB);
}

TEST_CASE("nothing is reserved on a CPU") {
  const RunSpec spec = small_run("{data: 1}");
  const Prediction p = dry_run(spec, spec.model, *make_counting_ops());
  CHECK(p.reserved_bytes == 0);
  CHECK(p.required_bytes() == p.device_bytes());
}

TEST_CASE("a run that fits but leaves no memory for libraries is refused") {
  const RunSpec spec = small_run("{data: 1}");
  const Prediction p = dry_run(spec, spec.model, *described_gpu(size_t{64} << 30));
  CHECK(p.required_bytes() == p.device_bytes() + 768 * kMiB);
  CHECK_NOTHROW(require_fit(p, memory_need_of(p), *described_gpu(p.required_bytes())));
  const auto too_small = described_gpu(p.required_bytes() - 300 * kMiB);
  CHECK_THROWS_AS(require_fit(p, memory_need_of(p), *too_small), ConfigError);
  CHECK_THROWS_WITH(require_fit(p, memory_need_of(p), *too_small),
                    Contains("of which 0.75 GiB are reserved for what NCCL, cuBLAS and cuDNN allocate") &&
                        Contains("0.29 GiB too few"));
  CHECK_THAT(describe(p, spec), Contains("kept for libraries         0.750"));
}
