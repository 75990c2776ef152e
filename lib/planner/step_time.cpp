#include "planner/step_time.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "config/model_facts.h"
#include "dryrun/dry_rig.h"
#include "exec/stage_links.h"
#include "pipeline/closed_forms.h"
#include "planner/device_share.h"
#include "planner/matrix_time.h"
#include "planner/shard_time.h"
#include "planner/timeline.h"

namespace fp {
namespace {

size_t index(int i) { return static_cast<size_t>(i); }

int64_t parameters_of(const std::vector<PartCosts>& stages, const Placement& placement, int rank) {
  int64_t sum = 0;
  for (const int s : placement.stages_of(rank)) sum += stages[index(s)].parameters;
  return sum;
}

int64_t largest_stage(const std::vector<PartCosts>& stages) {
  int64_t most = 0;
  for (const PartCosts& s : stages) most = std::max(most, s.parameters);
  return most;
}

int rank_with_most(const std::vector<PartCosts>& stages, const Placement& placement) {
  int most = 0;
  for (int r = 1; r < placement.ranks; ++r)
    if (parameters_of(stages, placement, r) > parameters_of(stages, placement, most)) most = r;
  return most;
}

// Compute time of a pipeline rank in a step.
PassSeconds work_of(const std::vector<PartCosts>& stages, const Placement& placement, int rank, int micro_batches,
                    bool split) {
  PassSeconds sum;
  const double each = static_cast<double>(micro_batches) / placement.pipes();
  for (const int s : placement.stages_of(rank)) {
    PartCosts part = stages[index(s)];
    PassSeconds pass = part.forward;
    if (split) (pass += part.backward_input) += part.backward_weight;
    if (!split) pass += part.backward;
    sum += {each * pass.total, each * pass.exposed, each * pass.copies};
  }
  return sum;
}

PassSeconds busiest(const std::vector<PartCosts>& stages, const Placement& placement, int micro_batches, bool split) {
  PassSeconds most;
  for (int r = 0; r < placement.ranks; ++r) {
    const PassSeconds w = work_of(stages, placement, r, micro_batches, split);
    if (w.total > most.total) most = w;
  }
  return most;
}

// Mean seconds of a gather of a stage's `parameters` parameters in a lowered schedule. Where nodes keep weights, the
// first gather of each stage on a rank takes longer than the later ones.
double mean_gather_seconds(const RunSpec& spec, const CostModel& costs, const Mesh& mesh, double parameters,
                           const Schedule& s) {
  const double first = gathers_seconds(spec, costs, mesh, parameters, 1),
               later = gathers_seconds(spec, costs, mesh, parameters, 2) - first;
  double gathers = 0, stages = 0;
  for (const auto& list : s.ranks) {
    std::set<int> gathered;
    for (const Action& a : list) {
      if (a.kind != ActionKind::gather) continue;
      gathers += 1;
      gathered.insert(a.stage);
    }
    stages += static_cast<double>(gathered.size());
  }
  return gathers == 0 ? first : (stages * first + (gathers - stages) * later) / gathers;
}

bool splits(const Schedule& s) {
  for (const auto& list : s.ranks)
    if (std::any_of(list.begin(), list.end(), [](const Action& a) { return a.kind == ActionKind::backward_weight; }))
      return true;
  return false;
}

// Whether updated weights arrive during the next forward pass, as WeightGather::start_all_gather() says.
bool gathers_later(const RunSpec& spec, const CostModel& costs) {
  const CommunicationSection& c = spec.communication;
  const int64_t zero = spec.parallel.zero_stage;
  return c.overlap && costs.cluster().overlaps && (zero == 1 || zero == 2) &&
         spec.memory.offload.weights == Offload::none && !c.by_nodes && !c.weight_differences;
}

// Seconds that the first forward pass of a step waits for updated weights of `parameters` parameters in this number of
// units, beside which it computes for `cover` seconds.
double wait_for_weights(const RunSpec& spec, const CostModel& costs, const Mesh& mesh, double parameters, double cover,
                        double units) {
  if (!gathers_later(spec, costs)) return 0;
  const double seconds = updated_weights_seconds(spec, costs, mesh, parameters);
  return std::max(seconds - cover, seconds / units);
}

// Seconds of the reduction of an embedding's gradients that the first and last pipeline rank share.
double ends_seconds(const RunSpec& spec, const Mesh& mesh, const CostModel& costs, const ModelCosts& parts) {
  if (parts.shared == 0 || mesh.pp() < 2) return 0;
  const std::vector<int> pipeline = mesh.pipeline(0);
  const double shards = spec.parallel.zero_stage > 0 ? mesh.dp() * mesh.sp() * (mesh.two_way() ? 2 : 1) : 1;
  const double sent = static_cast<double>(parts.shared) / shards * gradient_bytes(spec);
  return costs.comm_seconds(CommKind::all_reduce, std::vector{pipeline.front(), pipeline.back()},
                            static_cast<int64_t>(sent));
}

// What is sent between two neighbouring stages of a pipeline.
struct Boundary {
  double message = 0;  // seconds of a message
  double gather = 0;   // of the gather of its parts, for which the receiver waits
};

class Boundaries {
 public:
  Boundaries(const RunSpec& spec, const PipelinePlan& plan, const std::vector<PartCosts>& stages, const Mesh& mesh,
             const CostModel& costs)
      : placement_(plan.placement), mesh_(mesh), costs_(costs), whole_only_(spec.parallel.megatron_sp) {
    for (const PartCosts& s : stages) bytes_ = std::max(bytes_, s.bytes.boundary);
  }

  Boundary after(int stage) const {
    const int from = placement_.rank_of(0, stage), to = placement_.rank_of(0, stage + 1);
    if (from == to) return {};
    const std::vector<int> pair{mesh_.rank_of({from, 0, 0, 0}), mesh_.rank_of({to, 0, 0, 0})};
    if (whole_only_ || !sends_in_parts(mesh_, costs_.nodes(), {}, from, to))
      return {costs_.comm_seconds(CommKind::send, pair, bytes_)};
    const int64_t part = bytes_ / mesh_.tp();
    return {costs_.comm_seconds(CommKind::send, pair, part),
            costs_.comm_seconds(CommKind::all_gather, mesh_.tensor(pair.back()), bytes_ - part)};
  }

 private:
  const Placement& placement_;
  const Mesh& mesh_;
  const CostModel& costs_;
  bool whole_only_;
  int64_t bytes_ = 0;  // of a message between two stages
};

// stage_costs(), with the gathers of what the stages receive.
std::vector<PartCosts> receiving_stages(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh,
                                        const CostModel& costs, const CostsOf& costs_of) {
  std::vector<PartCosts> stages = stage_costs(spec, plan, costs_of);
  const Boundaries boundaries(spec, plan, stages, mesh, costs);
  std::vector<double> gathers;
  for (int s = 0; s + 1 < plan.placement.stages(); ++s) gathers.push_back(boundaries.after(s).gather);
  for (size_t s = 0; s < gathers.size(); ++s) {
    const PassSeconds gather{gathers[s], gathers[s], 0};
    stages[s + 1].forward += gather;
    stages[s].backward_input += gather;
    stages[s].backward += gather;
  }
  return stages;
}

// Times an update: total, update and copies.
StepTime timed_update(DryRig& rig, const RunSpec& spec, const Timeline& clock) {
  const double start = clock.now(), waited = clock.exposed_copies();
  rig.executor.gradient_norm();
  rig.executor.update(spec.optimizer, 1e-3, 1, 1.0);
  StepTime t;
  t.total = clock.now() - start;
  t.copies = clock.exposed_copies() - waited;
  t.update = t.total - t.copies;
  return t;
}

StepTime dry_run_step(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh, const CostModel& costs,
                      CountingOps& ops, int micro_batches) {
  DryRig rig(spec, plan, ops, mesh, 0);
  Timeline clock(costs);
  const Watch watch(clock, ops, *rig.world);
  StepTime t;
  const auto timed = [&](const auto& work) {
    const double start = clock.now(), waited = clock.exposed(), copies = clock.exposed_copies();
    work();
    return PassSeconds{clock.now() - start, clock.exposed() - waited, clock.exposed_copies() - copies};
  };
  const auto step = [&](int n) {
    rig.executor.complete_update();
    return timed([&] { rig.executor.accumulate(rig.batches(n)); });
  };
  // In a single stage, the micro-batches between the first and the last take the same time.
  const int run = plan.placement.stages() > 1 ? micro_batches : std::min(micro_batches, 3);
  PassSeconds passes = step(run);
  if (micro_batches > run) {
    const PassSeconds fewer = step(run - 1);
    const double more = micro_batches - run;
    passes += {more * (passes.total - fewer.total), more * (passes.exposed - fewer.exposed),
               more * (passes.copies - fewer.copies)};
  }
  t.compute = passes.total - passes.exposed - passes.copies;
  t.exposed = passes.exposed;
  const StepTime update = timed_update(rig, spec, clock);
  t.update = update.update;
  t.copies = passes.copies + update.copies;
  t.total = passes.total + update.total;
  return t;
}

StepTime dry_run_update(const RunSpec& spec, const Mesh& mesh, const CostModel& costs, CountingOps& ops,
                        int pipeline_rank) {
  DryRig rig(spec, plan_pipeline(spec), ops, mesh, mesh.rank_of({pipeline_rank, 0, 0, 0}));
  rig.executor.complete_update();  // so that nodes keep weights (hpZ), which before the first update they only gather
  Timeline clock(costs);
  const Watch watch(clock, ops, *rig.world);
  return timed_update(rig, spec, clock);
}

// Seconds that the update of `parameters` parameters, which takes `update` seconds of ops, waits for copies: the lanes
// work beside it, but for the first subgroup that is fetched and the last that is written back.
double quick_copies(const RunSpec& spec, const CostModel& costs, double parameters, double update) {
  const double share = spec.memory.offload.device_share;
  const UpdateBytes b = update_bytes(spec);
  const double bytes = parameters * (share * (b.state + std::max(b.gradient_in, b.weights_out)) +
                                     (1 - share) * std::max(b.gradient, b.weights));
  const double subgroups = std::ceil(parameters / static_cast<double>(spec.memory.offload.subgroup));
  const double one_way = costs.copy_seconds(static_cast<int64_t>(bytes));
  if (costs.copies_take_cores()) return 2 * one_way;
  return std::max(one_way - update * (subgroups - 1) / subgroups, 0.0) + one_way / subgroups;
}

// Makespan of a step with few micro-batches; the schedule is not verified.
double replayed(const PipelinePlan& plan, const Costs& c, int micro_batches) {
  ScheduleRequest request = plan.request;
  request.micro_batches = micro_batches;
  return simulate(lower(generate(request, plan.lowering.costs), plan.lowering), c).makespan;
}

constexpr int kFewStages = 16;

// Small pipelines: replays a few micro-batches and extrapolates. Large ones: uses the closed forms; with slow messages
// the number of micro-batches in flight limits the rate.
double quick_makespan(const PipelinePlan& plan, const std::vector<PartCosts>& stages, const Costs& c, double work,
                      int micro_batches) {
  if (plan.from_file) return work;
  const int few = 2 * plan.placement.ranks, more = 2 * few;
  const bool whole = micro_batches <= more;
  if (plan.placement.stages() <= kFewStages && (whole || micro_batches % few == 0)) {
    if (whole) return replayed(plan, c, micro_batches);
    const double first = replayed(plan, c, few), both = replayed(plan, c, more);
    return both + (both - first) * (micro_batches - more) / few;
  }
  ScheduleRequest request = plan.request;
  request.micro_batches = micro_batches;
  const double fill = idle_passes(request) * work / micro_batches / 3 + 2 * (plan.placement.ranks - 1) * c.hop;
  double latency = 2 * (plan.placement.stages() - 1) * c.hop;
  for (const PartCosts& s : stages) latency += s.forward.total + s.backward_input.total;
  return std::max(work + fill, micro_batches * latency / held_micro_batches(request));
}

}  // namespace

std::vector<PartCosts> stage_costs(const RunSpec& spec, const PipelinePlan& plan, const CostsOf& costs_of) {
  std::vector<PartCosts> stages;
  const std::vector<Recompute>& own = spec.parallel.pipeline.recompute;
  const ModelCosts& all = costs_of(spec.memory.recompute);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const ModelCosts& costs = own.empty() ? all : costs_of(own[s]);
    const StagePart& part = plan.stages[s];
    PartCosts stage;
    if (part.embedding) stage += costs.embedding;
    for (int64_t l = 0; l < part.layers; ++l) {
      const PartCosts& layer = costs.layer(part.first_layer + l);
      const bool stays = part.head && l + 1 == part.layers && !in_chunks(spec);
      stage += stays ? without_offload(layer) : layer;
    }
    if (part.head) stage += costs.head;
    if (part.head && (part.embedding || plan.placement.ranks == 1)) stage.parameters -= costs.shared;
    stages.push_back(stage);
  }
  return stages;
}

Costs schedule_costs(const RunSpec& spec, const PipelinePlan& plan, const std::vector<PartCosts>& stages,
                     const Mesh& mesh, const CostModel& costs) {
  Costs c;
  const auto largest = static_cast<double>(largest_stage(stages));
  for (const PartCosts& s : stages)
    c.by_stage.push_back({s.forward.total, s.backward_input.total, s.backward_weight.total});
  const Boundaries boundaries(spec, plan, stages, mesh, costs);
  for (int stage = 0; stage + 1 < plan.placement.stages(); ++stage)
    c.hop = std::max(c.hop, boundaries.after(stage).message);
  c.slots = plan.lowering.sends_in_flight;
  c.reduce = reduce_seconds(spec, costs, mesh, largest);
  c.gather = gathers_seconds(spec, costs, mesh, largest, 1);
  c.collectives_hold_up = !costs.cluster().overlaps;
  return c;
}

StepTime step_time(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh, const CostModel& costs,
                   const CostsOf& costs_of, CountingOps& ops, int micro_batches) {
  if (mesh.pp() == 1) return dry_run_step(spec, plan, mesh, costs, ops, micro_batches);
  const std::vector<PartCosts> stages = receiving_stages(spec, plan, mesh, costs, costs_of);
  const Schedule schedule = plan.step(micro_batches);
  const bool split = splits(schedule);
  Costs c = schedule_costs(spec, plan, stages, mesh, costs);
  c.gather = mean_gather_seconds(spec, costs, mesh, static_cast<double>(largest_stage(stages)), schedule);
  if (!split)
    for (size_t s = 0; s < stages.size(); ++s)
      c.by_stage[s].backward_weight = stages[s].backward.total - c.by_stage[s].backward_input;
  const double makespan = simulate(schedule, c).makespan;
  const PassSeconds work = busiest(stages, plan.placement, micro_batches, split);
  StepTime t;
  const int most = rank_with_most(stages, plan.placement);
  double forward = 0, units = 0;
  for (const int s : plan.placement.stages_of(most)) {
    forward += stages[index(s)].forward.total;
    units += 1 + static_cast<double>(plan.stages[index(s)].layers);
  }
  const double waits =
      ends_seconds(spec, mesh, costs, costs_of(spec.memory.recompute)) +
      wait_for_weights(spec, costs, mesh, static_cast<double>(parameters_of(stages, plan.placement, most)), forward,
                       units);
  t.compute = work.total - work.exposed - work.copies;
  t.exposed = work.exposed + waits;
  t.bubble = makespan - work.total;
  const StepTime update = dry_run_update(spec, mesh, costs, ops, most);
  t.update = update.update;
  t.copies = work.copies + update.copies;
  t.total = makespan + waits + update.total;
  return t;
}

StepTime quick_step_time(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh, const CostModel& costs,
                         const CostsOf& costs_of, CountingOps& ops, int micro_batches) {
  const std::vector<PartCosts> stages = receiving_stages(spec, plan, mesh, costs, costs_of);
  const PassSeconds work = busiest(stages, plan.placement, micro_batches, false);
  const int most = rank_with_most(stages, plan.placement);
  const auto parameters = static_cast<double>(parameters_of(stages, plan.placement, most));
  const auto sharers = static_cast<double>(mesh.data(0).size());
  StepTime t;
  t.compute = work.total - work.exposed - work.copies;
  t.exposed = work.exposed + ends_seconds(spec, mesh, costs, costs_of(spec.memory.recompute));
  if (plan.placement.ranks > 1) {
    const Costs c = schedule_costs(spec, plan, stages, mesh, costs);
    t.bubble = std::max(0.0, quick_makespan(plan, stages, c, work.total, micro_batches) - work.total);
  }
  // Overlapped communication is exposed where it is longer than the computation; at least a tenth of it always is.
  const auto beside = [&](double seconds, double cover) {
    t.exposed += costs.cluster().overlaps ? std::max(seconds - cover, 0.1 * seconds) : seconds;
  };
  const bool once = spec.breadth_first(), often = spec.parallel.zero_stage >= 2 && !once;
  const bool weights_on_host = spec.memory.offload.weights == Offload::host;
  const double sums = (often ? micro_batches : 1) * reduce_seconds(spec, costs, mesh, parameters);
  beside(sums, (often || once ? 1.0 : 1.0 / micro_batches) * 0.6 * t.compute + 0.5 * t.bubble);
  if (spec.parallel.zero_stage == 3 || (weights_on_host && spec.parallel.zero_stage > 0))
    beside(gathers_seconds(spec, costs, mesh, parameters, 2 * (once ? 1 : micro_batches)), 0.9 * t.compute);
  // Every slot is read and written; gradients are read here and by the norm. In fp32 the weights are a slot.
  const double moved = (spec.precision.compute == DType::bf16 ? 2 : 0) +
                       2 * saved_bytes(spec.optimizer.kind, matrix_fraction(spec.model)) + 8;
  const double updated = parameters / (spec.parallel.zero_stage > 0 ? sharers : 1);
  const OptimizerKind kind = spec.optimizer.kind == OptimizerKind::muon ? OptimizerKind::adamw : spec.optimizer.kind;
  t.update = costs.op_seconds({name_of(kind), 0, updated * moved, 0, 0, 0, DType::f32});
  int64_t layers = 0;
  for (const int s : plan.placement.stages_of(most)) layers += plan.stages[index(s)].layers;
  t.update += matrix_update_seconds(spec, mesh, costs, ops, most, layers);
  t.copies = work.copies;
  if (weights_on_host) {
    // Weights come in each pass, and gradients leave in the backward pass, which is about two thirds of the work.
    const auto exposed = [&](double bytes, double of_work) {
      return costs.exposed_copy_seconds(costs.copy_seconds(static_cast<int64_t>(updated * bytes)), of_work * t.compute);
    };
    t.copies +=
        exposed(weight_bytes(spec), 1.0 / 3) + exposed(std::max(weight_bytes(spec), gradient_bytes(spec)), 2.0 / 3);
  }
  if (spec.memory.offload.optimizer == Offload::host) {
    const double share = spec.memory.offload.device_share;
    if (share == 1 || costs.copies_take_cores()) {
      t.copies += quick_copies(spec, costs, updated, t.update);
    } else {
      t.copies += update_waits(spec, costs, updated);
      t.update -= (1 - share) * updated / update_rates(spec, costs).device_update;
    }
  }
  if (gathers_later(spec, costs))
    t.exposed += wait_for_weights(spec, costs, mesh, parameters, t.compute / (3 * micro_batches),
                                  static_cast<double>(layers + 1));
  else
    t.update += updated_weights_seconds(spec, costs, mesh, parameters);
  t.total = t.compute + t.exposed + t.bubble + t.update + t.copies;
  return t;
}

}  // namespace fp
