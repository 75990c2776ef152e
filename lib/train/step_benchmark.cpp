#include "train/step_benchmark.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "config/model_facts.h"
#include "exec/executor.h"
#include "train/dry_run.h"
#include "train/memory_watch.h"
#include "train/op_timer.h"
#include "train/setup.h"

namespace fp {
namespace {

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Batch> random_batches(const RunSpec& spec) {
  std::vector<Batch> batches(static_cast<size_t>(spec.train.global_batch / spec.train.micro_batch));
  uint64_t state = spec.run.seed;
  for (Batch& b : batches) {
    b.resize(spec.train.micro_batch, spec.data.seq_len);
    for (int64_t i = 0; i < b.n * b.seq_len; ++i) {
      const auto at = static_cast<size_t>(i);
      b.tokens[at] = static_cast<int32_t>(Philox::mix(state++) % static_cast<uint64_t>(spec.model.vocab));
      b.targets[at] = static_cast<int32_t>(Philox::mix(state++) % static_cast<uint64_t>(spec.model.vocab));
      b.positions[at] = static_cast<int32_t>(i % b.seq_len);
      b.doc_start[at] = 0;
    }
    for (size_t i = 0; i < b.sample_ids.size(); ++i) b.sample_ids[i] = i;
    b.valid_targets = b.n * b.seq_len;
  }
  return batches;
}

// A trained model's worth of memory and the step that is measured.
class Rig {
 public:
  Rig(const RunSpec& spec, size_t arena_bytes, Ops& ops)
      : spec_(spec),
        groups_(make_self_groups()),
        arena_(ops.allocate(arena_bytes, spec.memory.huge_pages), arena_bytes),
        model_(spec.model, model_options(spec), ops, arena_, groups_),
        executor_(model_, executor_options(spec)),
        batches_(random_batches(spec)),
        ops_(ops) {
    model_.params().initialize(ops, spec.run.seed);
  }
  void step() {
    executor_.accumulate(batches_);
    const GradientNorm g = executor_.gradient_norm();
    executor_.update(spec_.optimizer, 1e-4, ++count_, g.norm);
    ops_.synchronize();
  }

 private:
  const RunSpec& spec_;
  Groups groups_;
  Arena arena_;
  Model model_;
  Executor executor_;
  std::vector<Batch> batches_;
  Ops& ops_;
  int64_t count_ = 0;
};

}  // namespace

StepBenchmark benchmark_step(const RunSpec& spec, int warmup, int steps, bool profile, Ops& ops,
                             CountingOps& counting) {
  StepBenchmark r;
  r.device = ops.name();
  const Prediction p = dry_run(spec, spec.model, counting);
  r.tokens = spec.train.global_batch * spec.data.seq_len;
  r.model_flops_per_token = model_flops_per_token(spec.model, spec.data.seq_len);
  const MemoryWatch watch(ops);
  r.predicted_bytes = watch.before() + static_cast<int64_t>(p.device_bytes());
  ops.reserve_scratch(p.scratch_bytes);
  {
    Rig rig(spec, p.arena_bytes, ops);
    for (int i = 0; i < warmup; ++i) rig.step();
    for (int i = 0; i < steps; ++i) r.step_seconds.push_back(seconds_of([&] { rig.step(); }));
    r.peak_bytes = watch.peak();
  }
  r.median_seconds = median(r.step_seconds);
  r.tokens_per_s = static_cast<double>(r.tokens) / r.median_seconds;
  if (profile) {
    const auto timed = make_timing_ops(ops);
    Rig rig(spec, p.arena_bytes, *timed);
    rig.step();
    timed->reset();
    r.profile_seconds = seconds_of([&] { rig.step(); });
    r.profile = timed->timings();
  }
  for (const auto& [call, times] : r.profile.gemms)
    r.gemm_alone_seconds += static_cast<double>(times) * time_gemm(ops, call, compute_type(spec.precision), 5);
  r.peak = peak_rate(ops, compute_type(spec.precision));
  r.mfu = r.tokens_per_s * r.model_flops_per_token / r.peak.flops;
  return r;
}

}  // namespace fp
