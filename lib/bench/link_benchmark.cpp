#include "bench/link_benchmark.h"

#include <memory>

#include "base/median.h"
#include "base/stopwatch.h"
#include "bench/step_rig.h"
#include "dryrun/dry_rig.h"

namespace fp {
namespace {

Mesh mesh_of(const RunSpec& spec, const PipelinePlan& plan, int ranks) {
  const ParallelSection& p = spec.parallel;
  return {static_cast<int>(p.pipeline.ranks),
          static_cast<int>(p.data),
          static_cast<int>(p.sequence),
          static_cast<int>(p.tensor),
          ranks,
          plan.placement.two_way};
}

struct RankBytes {
  size_t device = 0, host = 0, scratch = 0;
};

RankBytes bytes_of_rank(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh, int rank, const Ops& ops) {
  const auto counting = make_counting_ops(&ops);
  const auto world = DryRig::world_of(spec, mesh, rank);
  Arena device, host{Residence::host};
  StepRig rig(spec, plan, device, *counting, &host, make_groups(*world, mesh));
  rig.initialize();
  for (int step = 0; step < 2; ++step) rig.step();
  return {device.peak(), host.peak(), counting->scratch_bytes()};
}

class RankInTraining {
 public:
  RankInTraining(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh, World& world, Ops& ops,
                 const RankBytes& needed)
      : device_(ops.allocate(needed.device, spec.memory.huge_pages), needed.device),
        host_(ops.allocate_host(needed.host, spec.memory.huge_pages), needed.host, Residence::host),
        groups_(make_groups(world, mesh)),
        rig_(spec, plan, device_, ops, &host_, groups_) {
    rig_.initialize();
  }
  void step(bool measured) {
    groups_.world->barrier();
    const double seconds = seconds_of([&] { rig_.step(); });
    if (measured) steps_.push_back(seconds);
  }
  const std::vector<double>& steps() const { return steps_; }

 private:
  Arena device_, host_;
  Groups groups_;
  StepRig rig_;
  std::vector<double> steps_;
};

}  // namespace

std::vector<LinkSteps> benchmark_links(std::span<const RunSpec> variants, World& instant, World& slow, Ops& ops,
                                       int warmup, int steps) {
  std::vector<PipelinePlan> plans;  // addresses stay
  plans.reserve(variants.size());
  std::vector<std::unique_ptr<RankInTraining>> all;  // two of each variant
  for (const RunSpec& spec : variants) {
    const PipelinePlan& plan = plans.emplace_back(plan_pipeline(spec));
    const Mesh mesh = mesh_of(spec, plan, instant.size());
    const RankBytes needed = bytes_of_rank(spec, plan, mesh, instant.rank(), ops);
    ops.reserve_scratch(needed.scratch);
    for (World* world : {&instant, &slow}) {
      if (spec.parallel.ranks_per_node > 0) world->set_nodes(nodes_of(spec.parallel, mesh.size()));
      all.push_back(std::make_unique<RankInTraining>(spec, plan, mesh, *world, ops, needed));
    }
  }
  for (int i = -warmup; i < steps; ++i)
    for (const auto& t : all) t->step(i >= 0);
  std::vector<LinkSteps> results;
  for (size_t i = 0; i < all.size(); i += 2) {
    const std::vector<double>&fast = all[i]->steps(), &delayed = all[i + 1]->steps();
    std::vector<double> differences;
    for (size_t n = 0; n < fast.size(); ++n) differences.push_back(delayed[n] - fast[n]);
    results.push_back({median(fast), median(delayed), median(differences)});
  }
  return results;
}

}  // namespace fp
