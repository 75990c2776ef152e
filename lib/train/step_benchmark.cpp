#include "train/step_benchmark.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/median.h"
#include "base/stopwatch.h"
#include "config/model_facts.h"
#include "train/dry_run.h"
#include "train/memory_watch.h"
#include "train/op_timer.h"
#include "train/setup.h"
#include "train/step_rig.h"

namespace fp {
namespace {}  // namespace

StepBenchmark benchmark_step(const RunSpec& spec, int warmup, int steps, bool profile, Ops& ops,
                             CountingOps& counting) {
  StepBenchmark r;
  r.device = ops.name();
  Prediction p = dry_run(spec, spec.model, counting);
  p.staging_bytes = 0;  // nothing is saved
  r.tokens = spec.train.global_batch * spec.data.seq_len;
  r.model_flops_per_token = model_flops_per_token(spec.model, spec.data.seq_len);
  const MemoryWatch watch(ops);
  r.predicted_bytes = watch.before() + static_cast<int64_t>(p.device_bytes());
  ops.reserve_scratch(p.scratch_bytes);
  {
    Arena arena(ops.allocate(p.arena_bytes, spec.memory.huge_pages), p.arena_bytes);
    StepRig rig(spec, arena, ops);
    rig.initialize();
    for (int i = 0; i < warmup; ++i) rig.step();
    for (int i = 0; i < steps; ++i) r.step_seconds.push_back(seconds_of([&] { rig.step(); }));
    r.peak_bytes = watch.peak();
  }
  r.median_seconds = median(r.step_seconds);
  r.tokens_per_s = static_cast<double>(r.tokens) / r.median_seconds;
  if (profile) {
    const auto timed = make_timing_ops(ops);
    Arena arena(ops.allocate(p.arena_bytes, spec.memory.huge_pages), p.arena_bytes);
    StepRig rig(spec, arena, *timed);
    rig.initialize();
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
