// What a run leaves alone on a GPU for libraries, on devices that are only described.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "config/load.h"
#include "train/device_reserve.h"
#include "train/dry_run.h"

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

// A GPU of which so many bytes are free.
std::unique_ptr<CountingOps> described_gpu(size_t free) { return make_counting_ops(nullptr, DeviceMemory{0, free}); }

size_t reserved(const std::string& parallel, const Mesh& mesh, int rank) {
  const RunSpec spec = small_run(parallel);
  return dry_run(spec, spec.model, *described_gpu(size_t{64} << 30), mesh, rank).reserved_bytes;
}

}  // namespace

TEST_CASE("a rank alone on a GPU leaves memory for cuBLAS and cuDNN") {
  CHECK(reserved("{data: 1}", {}, 0) == 768 * kMiB);
}

TEST_CASE("every communicator that moves tensors adds to what is left alone") {
  CHECK(reserved("{data: 2}", Mesh(1, 2, 1, 1, 2), 0) == (768 + 512) * kMiB);
  CHECK(reserved("{data: 2, tensor: 2}", Mesh(1, 2, 1, 2, 4), 3) == (768 + 2 * 512) * kMiB);
}

TEST_CASE("neighbouring stages of a pipeline add a pair, more of them in the middle") {
  const std::string four = "{pipeline: {ranks: 4, schedule: 1f1b}}";
  // gpt2 shares its embedding with the head: the first and the last rank sum its gradients over a group.
  CHECK(reserved(four, Mesh(4, 1, 1, 1, 4), 0) == (768 + 128 + 512) * kMiB);
  CHECK(reserved(four, Mesh(4, 1, 1, 1, 4), 1) == (768 + 2 * 128) * kMiB);
}

TEST_CASE("on a CPU nothing is left alone") {
  const RunSpec spec = small_run("{data: 1}");
  const Prediction p = dry_run(spec, spec.model, *make_counting_ops());
  CHECK(p.reserved_bytes == 0);
  CHECK(p.required_bytes() == p.device_bytes());
}

TEST_CASE("a run whose own memory fits is refused where nothing would be left for libraries") {
  const RunSpec spec = small_run("{data: 1}");
  const Prediction p = dry_run(spec, spec.model, *described_gpu(size_t{64} << 30));
  CHECK(p.required_bytes() == p.device_bytes() + 768 * kMiB);
  CHECK_NOTHROW(require_fit(p, need_of(p), *described_gpu(p.required_bytes())));
  const auto too_small = described_gpu(p.required_bytes() - 300 * kMiB);
  CHECK_THROWS_AS(require_fit(p, need_of(p), *too_small), ConfigError);
  CHECK_THROWS_WITH(require_fit(p, need_of(p), *too_small),
                    Contains("of which 0.75 GiB are reserved for what NCCL, cuBLAS and cuDNN allocate") &&
                        Contains("0.29 GiB too few"));
  CHECK_THAT(describe(p, spec), Contains("kept for libraries         0.750"));
}
