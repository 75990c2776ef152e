// Sequences in chunks with offloaded activations: copies run beside ops, also where a tensor is due while it still
// leaves.
#include <catch2/catch.hpp>

#include "exec/executor.h"
#include "ops/counting.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

namespace {

// Counts the copies of each lane, and those that are waited for before another op is issued: nothing runs beside them.
class CopyWatch : public OpObserver, public CopyObserver {
 public:
  explicit CopyWatch(Ops& ops) : ops_(&ops) {
    ops.observe(*this);
    ops.copies().observe(this);
  }
  ~CopyWatch() override {
    ops_->stop_observing(*this);
    ops_->copies().observe(nullptr);
  }
  CopyWatch(const CopyWatch&) = delete;
  CopyWatch& operator=(const CopyWatch&) = delete;

  int to_device = 0, exposed = 0;

 private:
  void ended(std::string_view, std::span<const OpWork>) override { ++issued_; }
  double host_op_started(const OpWork&, double) override { return 0; }
  // The "time" at which a copy ends is its number.
  double copy_started(CopyLane lane, int64_t, double) override {
    to_device += lane == CopyLane::to_device ? 1 : 0;
    issued_before_.push_back(issued_);
    return static_cast<double>(issued_before_.size());
  }
  void copy_waited(double end) override { exposed += issued_before_[static_cast<size_t>(end) - 1] == issued_ ? 1 : 0; }

  Ops* ops_;
  int64_t issued_ = 0;
  std::vector<int64_t> issued_before_;  // by copy
};

struct Watched {
  int trained, evaluated;  // copies to the device
  int exposed;
};

// Trains on one micro-batch in `chunks` chunks, then evaluates it.
Watched watch(int64_t layers, int64_t chunks) {
  constexpr int64_t kLength = 24;
  ModelSection m = tiny_model("llama");
  m.layers = layers;
  ModelOptions options{DType::bf16, true, DType::f32, 0, false, Recompute::full, 11, kLength};
  options.sequence_chunk = kLength / chunks;
  options.offload_activations = true;
  const auto ops = make_counting_ops();
  Arena arena, host(Residence::host);
  const Groups groups = make_self_groups();
  Model model(m, options, *ops, arena, groups, &host);
  Executor executor(model, {});
  const Batch batch = random_batch(m, 2, kLength, 3);
  CopyWatch watch(*ops);
  executor.accumulate(std::span(&batch, 1));
  const int trained = watch.to_device;
  executor.evaluate(std::span(&batch, 1));
  return {trained, watch.to_device - trained, watch.exposed};
}

}  // namespace

TEST_CASE("between layers no copy of a sequence in chunks is waited for at once", "[exec]") {
  // Only where a pass over all layers begins or ends, whatever their number and that of the chunks.
  const int exposed = watch(2, 2).exposed;
  for (const int64_t chunks : {2, 3, 4, 8})
    for (const int64_t layers : {4, 8}) {
      CAPTURE(chunks, layers);
      CHECK(watch(layers, chunks).exposed == exposed);
    }
}

TEST_CASE("with two chunks, a tensor that is needed while its copy to the host runs stays on the device", "[exec]") {
  const Watched four = watch(4, 2), five = watch(5, 2);
  // A layer's forward pass has its inputs on the device; only the first chunk's keys and values come back, for the
  // second chunk. Its backward pass needs these twice, its inputs three times (the first chunk's keys are restored
  // before), and the gradients of the second chunk's output and of the first chunk's keys.
  CHECK(five.evaluated - four.evaluated == 1);
  CHECK(five.trained - four.trained == 1 + 2 + 3 + 1 + 1);
}
