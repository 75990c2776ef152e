#include "bench/offload_benchmark.h"

#include <memory>

#include "base/median.h"
#include "base/stopwatch.h"
#include "bench/step_rig.h"

namespace fp {
namespace {

struct Bytes {
  size_t device = 0, host = 0;
};

Bytes arenas_of_step(const OffloadVariant& v, CountingOps& counting) {
  Arena device, host{Residence::host};
  StepRig rig(v.spec, device, counting, &host, v.synchronous);
  rig.initialize();
  rig.step();
  return {device.peak(), host.peak()};
}

std::array<int64_t, kLanes> totals(Ops& ops) {
  std::array<int64_t, kLanes> bytes{};
  for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host})
    bytes[index_of(lane)] = ops.copies().total(lane).bytes;
  return bytes;
}

class VariantInTraining {
 public:
  VariantInTraining(const OffloadVariant& v, const Bytes& needed)
      : ops_(*v.ops),
        device_(ops_.allocate(needed.device, v.spec.memory.huge_pages), needed.device),
        host_(ops_.allocate_host(needed.host, v.spec.memory.huge_pages), needed.host, Residence::host),
        rig_(v.spec, device_, ops_, &host_, v.synchronous) {
    rig_.initialize();
  }

  void step() {
    const double passes = seconds_of([&] { rig_.run_passes(); });
    const std::array<int64_t, kLanes> before = totals(ops_);
    updates_.push_back(seconds_of([&] { rig_.run_update(); }));
    steps_.push_back(passes + updates_.back());
    for (size_t lane = 0; lane < kLanes; ++lane) bytes_[lane] = totals(ops_)[lane] - before[lane];
  }
  void forget_steps() {
    steps_.clear();
    updates_.clear();
  }
  OffloadSteps result() const { return {median(steps_), median(updates_), bytes_}; }

 private:
  Ops& ops_;
  Arena device_, host_;
  StepRig rig_;
  std::vector<double> steps_, updates_;
  std::array<int64_t, kLanes> bytes_{};
};

}  // namespace

std::vector<OffloadSteps> benchmark_offload(std::span<const OffloadVariant> variants, int warmup, int steps,
                                            CountingOps& counting) {
  std::vector<std::unique_ptr<VariantInTraining>> all;
  for (const OffloadVariant& v : variants) {
    const Bytes needed = arenas_of_step(v, counting);
    v.ops->reserve_scratch(counting.scratch_bytes());
    all.push_back(std::make_unique<VariantInTraining>(v, needed));
  }
  for (int i = -warmup; i < steps; ++i)
    for (const auto& t : all) {
      if (i == 0) t->forget_steps();
      t->step();
    }
  std::vector<OffloadSteps> results;
  for (const auto& t : all) results.push_back(t->result());
  return results;
}

}  // namespace fp
