#include "bench/offload_benchmark.h"

#include <vector>

#include "base/median.h"
#include "base/stopwatch.h"
#include "bench/step_rig.h"

namespace fp {
namespace {

struct Bytes {
  size_t device = 0, host = 0;
};

Bytes arenas_of_step(const RunSpec& spec, bool synchronous, CountingOps& counting) {
  Arena device, host{Residence::host};
  StepRig rig(spec, device, counting, &host, synchronous);
  rig.step();
  return {device.peak(), host.peak()};
}

std::array<int64_t, kLanes> totals(Ops& ops) {
  std::array<int64_t, kLanes> bytes{};
  for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host})
    bytes[index_of(lane)] = ops.copies().total(lane).bytes;
  return bytes;
}

}  // namespace

OffloadSteps benchmark_offload(const RunSpec& spec, bool synchronous, int warmup, int steps, Ops& ops,
                               CountingOps& counting) {
  const Bytes needed = arenas_of_step(spec, synchronous, counting);
  ops.reserve_scratch(counting.scratch_bytes());
  Arena device(ops.allocate(needed.device, spec.memory.huge_pages), needed.device);
  Arena host(ops.allocate_host(needed.host, spec.memory.huge_pages), needed.host, Residence::host);
  StepRig rig(spec, device, ops, &host, synchronous);
  rig.initialize();
  for (int i = 0; i < warmup; ++i) rig.step();
  std::vector<double> seconds, of_update;
  OffloadSteps r;
  for (int i = 0; i < steps; ++i) {
    const double passes = seconds_of([&] { rig.run_passes(); });
    const std::array<int64_t, kLanes> before = totals(ops);
    of_update.push_back(seconds_of([&] { rig.run_update(); }));
    seconds.push_back(passes + of_update.back());
    for (size_t lane = 0; lane < kLanes; ++lane) r.bytes[lane] = totals(ops)[lane] - before[lane];
  }
  r.seconds = median(seconds);
  r.update_seconds = median(of_update);
  return r;
}

}  // namespace fp
