// An update that an error ends while the host's cores compute.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "exec/rig.h"

using namespace fp;
using namespace fp::test;

namespace {

// Fails at the n-th update of a subgroup by the device, from 1 on.
struct FailingUpdate : OpObserver {
  int left;
  explicit FailingUpdate(int n) : left(n) {}
  void starts(std::string_view op) override {
    if (op == "adamw" && --left == 0) throw DataError("an injected failure");
  }
  void ended(std::string_view, std::span<const OpWork>) override {}
};

}  // namespace

TEST_CASE("an error during an update leaves all memory until the host's work has ended", "[exec]") {
  const ModelSection m = tiny_model("llama");
  for (const int failing : {1, 2}) {
    CAPTURE(failing);
    Rig rig(make_cpu_ops(), m, DType::bf16, Recompute::none, {.device_share = 0.5}, 32, size_t{64} << 20, true);
    const std::vector<Batch> batches{random_batch(m, 2, 20, 3)};
    rig.executor.accumulate(batches);
    const size_t device = rig.arena.in_use(), host = rig.host_arena.in_use();
    const double norm = rig.executor.gradient_norm().norm;
    FailingUpdate failure(failing);
    rig.ops->observe(failure);
    CHECK_THROWS_WITH(rig.executor.update({}, 1e-3, 1, norm, true), "an injected failure");
    rig.ops->stop_observing(failure);
    CHECK(rig.ops->copies().idle());
    CHECK(rig.arena.in_use() == device);
    CHECK(rig.host_arena.in_use() == host);
  }
}
