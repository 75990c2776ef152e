#include "bench/step_benchmark.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "base/median.h"
#include "base/stopwatch.h"
#include "bench/op_timer.h"
#include "bench/step_rig.h"
#include "config/model_facts.h"
#include "dryrun/dry_run.h"
#include "dryrun/memory_watch.h"
#include "dryrun/setup.h"

namespace fp {
namespace {

struct Memory {
  Memory(const Prediction& p, const RunSpec& spec, Ops& ops)
      : arena(std::make_unique<Arena>(ops.allocate(p.arena_bytes, spec.memory.huge_pages), p.arena_bytes)) {
    if (p.offloaded_bytes > 0)
      host_arena = std::make_unique<Arena>(ops.allocate_host(p.offloaded_bytes, spec.memory.huge_pages),
                                           p.offloaded_bytes, Residence::host);
  }
  std::unique_ptr<Arena> arena, host_arena;
};

}  // namespace

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
    const Memory memory(p, spec, ops);
    StepRig rig(spec, *memory.arena, ops, memory.host_arena.get());
    rig.initialize();
    for (int i = 0; i < warmup; ++i) rig.step();
    for (int i = 0; i < steps; ++i) r.step_seconds.push_back(seconds_of([&] { rig.step(); }));
    r.peak_bytes = watch.peak();
  }
  r.median_seconds = median(r.step_seconds);
  r.tokens_per_s = static_cast<double>(r.tokens) / r.median_seconds;
  if (profile) {
    const Memory memory(p, spec, ops);
    StepRig rig(spec, *memory.arena, ops, memory.host_arena.get());
    rig.initialize();
    rig.step();
    const OpTimes times(ops);
    r.profile_seconds = seconds_of([&] { rig.step(); });
    r.profile = times.timings();
  }
  for (const auto& [call, times] : r.profile.gemms)
    r.gemm_alone_seconds += static_cast<double>(times) * time_gemm(ops, call, spec.precision.compute, 5);
  r.peak = peak_rate(ops, spec.precision.compute);
  r.mfu = r.tokens_per_s * r.model_flops_per_token / r.peak.flops;
  return r;
}

}  // namespace fp
