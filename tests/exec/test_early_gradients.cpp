// Gradients by which the host updates leave the device during the backward pass, once a step.
#include <catch2/catch.hpp>

#include "exec/rig.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("gradients of the host's updates are sent in the backward pass and not again in the update", "[exec]") {
  const ModelSection m = tiny_model("llama");
  for (const bool early : {false, true}) {
    const ExecutorOptions options{.device_share = 0, .early_gradients = early};
    Rig rig(make_cpu_ops(), m, DType::bf16, Recompute::none, options, 32, size_t{64} << 20, true);
    int64_t gradients = 0;
    for (const Subgroup& s : subgroups_of(rig.model.params())) gradients += 4 * s.range.count;
    const auto sent = [&] { return rig.ops->copies().total(CopyLane::to_host).bytes; };
    int64_t before = sent();
    for (int step = 1; step <= 3; ++step) {
      std::vector<Batch> batches;
      for (int i = 0; i < 3; ++i)
        batches.push_back(random_batch(m, 2, 20, static_cast<uint64_t>(10 * step + i), false));
      rig.executor.accumulate(batches);
      CAPTURE(early, step);
      CHECK(sent() - before == (early ? gradients : 0));
      if (step == 2) rig.executor.accumulate(batches);  // a step that is repeated sends its gradients again
      before = sent() - (early ? gradients : 0);
      rig.executor.update({}, 1e-3, step, rig.executor.gradient_norm().norm);
      CHECK(sent() - before == gradients);
      before = sent();
    }
  }
}
