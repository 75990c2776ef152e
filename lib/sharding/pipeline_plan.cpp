#include "sharding/pipeline_plan.h"

#include <algorithm>

#include "base/error.h"
#include "config/model_facts.h"
#include "pipeline/text.h"
#include "pipeline/verify.h"

namespace fp {
namespace {

// Loads the file that the run spec names: one that is missing or malformed is a mistake of the configuration.
Schedule load_file_of(const PipelineSection& p) {
  try {
    return load_schedule(p.schedule_file);
  } catch (const DataError& e) {
    if (e.code() != ExitCode::bad_data) throw;
    throw ConfigError(fmt::format("parallel.pipeline.schedule_file: {}", e.what()));
  }
}

// Loads only the order of the passes from a schedule file: lowering adds messages, gathers and reductions anew.
Schedule passes_of(const PipelineSection& p) {
  Schedule s = load_file_of(p);
  for (auto& actions : s.ranks) std::erase_if(actions, [](const Action& a) { return !is_compute(a.kind); });
  if (s.placement.ranks != p.ranks)
    throw ConfigError(fmt::format("{}: is for {} pipeline ranks, but parallel.pipeline.ranks = {}", p.schedule_file,
                                  s.placement.ranks, p.ranks));
  return s;
}

// FLOPs of the passes of each stage, relative to each other. All passes of the LM head count as B.
Costs costs_of(const ModelSection& m, int64_t seq_len, const std::vector<StagePart>& stages) {
  Costs costs;
  for (const StagePart& s : stages) {
    double pass = 0;
    for (int64_t l = 0; l < s.layers; ++l) pass += layer_flops_per_token(m, s.first_layer + l, seq_len) / 3;
    const double least = layer_flops_per_token(m, 0, seq_len) / 300;  // a stage without layers also takes time
    pass = std::max(pass, least);
    costs.by_stage.push_back({pass, pass + (s.head ? head_flops_per_token(m) : 0), pass});
  }
  return costs;
}

Schedule checked(const Schedule& computed, const LoweringOptions& lowering) {
  Schedule s = computed;
  std::vector<std::string> problems = verify(s);
  if (problems.empty()) {
    s = lower(computed, lowering);
    problems = verify_lowered(s, lowering);
  }
  if (problems.empty()) return s;
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(problems.size(), 5); ++i) text += "\n  " + problems[i];
  throw ConfigError(fmt::format("invalid schedule {} for {} micro-batches:{}", s.kind, s.micro_batches, text));
}

}  // namespace

void PipelinePlan::prepare(const std::vector<int>& micro_batches) {
  auto steps = std::make_shared<std::map<int, Schedule>>();
  for (const int n : micro_batches) steps->emplace(n, step(n));
  ready = steps;
}

Schedule PipelinePlan::step(int micro_batches) const {
  if (ready && ready->contains(micro_batches)) return ready->at(micro_batches);
  if (from_file) {
    if (from_file->micro_batches != micro_batches)
      throw ConfigError(
          fmt::format("{} is for {} micro-batches, but a step has {} (train.global_batch / train.micro_batch / "
                      "parallel.data)",
                      from_file->kind, from_file->micro_batches, micro_batches));
    return checked(*from_file, lowering);
  }
  ScheduleRequest r = request;
  r.micro_batches = micro_batches;
  LoweringOptions how = lowering;
  try {
    if (how.reduce_every > 0 && r.kind == PipelineSchedule::zeropp) how.reduce_every = complete(r).unit_size;
    return checked(generate(r, lowering.costs), how);
  } catch (const ConfigError& e) {
    throw ConfigError(
        fmt::format("parallel.pipeline, with train.global_batch / train.micro_batch / parallel.data = {}: {}",
                    micro_batches, e.what()));
  }
}

Schedule PipelinePlan::evaluation(int micro_batches) const {
  LoweringOptions forward = lowering;
  forward.reduce_every = 0;
  return lower(forward_only(placement, micro_batches), forward);
}

std::string describe(const PipelinePlan& plan, int micro_batches) {
  if (plan.placement.stages() == 1) return {};
  const Schedule s = plan.step(micro_batches);
  std::string layers;
  for (const StagePart& part : plan.stages) layers += fmt::format(" {}", part.layers);
  if (plan.placement.ranks == 1)
    return fmt::format("order of the passes   {:>12}   {} micro-batches through each of {} stages before the next\n",
                       s.kind, micro_batches, plan.stages.size());
  return fmt::format(
      "pipeline              {:>12}   {} stages of{} layers{}\n"
      "bubble                {:>10.1f} %   of a step of {} micro-batches, with times by FLOPs and instant messages\n",
      s.kind, plan.stages.size(), layers, plan.placement.two_way ? ", each on two ranks" : "",
      100 * simulate(s, plan.lowering.costs).bubble, micro_batches);
}

PipelinePlan single_stage(int64_t layers, bool reduces_often) {
  PipelinePlan plan;
  plan.stages = {{0, layers, true, true}};
  plan.lowering.reduce_every = reduces_often ? 1 : 0;
  return plan;
}

ScheduleRequest schedule_request(const PipelineSection& p) {
  ScheduleRequest r;
  r.kind = p.schedule;
  r.ranks = static_cast<int>(p.ranks);
  r.chunks = static_cast<int>(p.chunks);
  r.group = static_cast<int>(p.group);
  r.unit_size = static_cast<int>(p.unit_size);
  r.warmup = static_cast<int>(p.unit_warmup);
  r.window = static_cast<int>(p.window);
  r.w_pass = p.w_pass;
  r.memory_cap = static_cast<int>(p.memory_cap);
  return r;
}

Placement place_stages(const PipelineSection& p) {
  if (p.ranks == 1) return {};
  return p.schedule_file.empty() ? placement_of(schedule_request(p)) : passes_of(p).placement;
}

PipelinePlan plan_pipeline(const RunSpec& spec) {
  const PipelineSection& p = spec.parallel.pipeline;
  const bool often = spec.parallel.zero_stage >= 2 || spec.precision.gradients != DType::f32;
  const bool breadth_first = spec.breadth_first(), offloaded = spec.memory.offload.weights == Offload::host;
  if (p.ranks == 1 && !breadth_first) return single_stage(spec.model.layers, often);
  PipelinePlan plan;
  plan.request = schedule_request(p);
  if (!p.schedule_file.empty()) plan.from_file = passes_of(p);
  if (breadth_first) {
    plan.request.kind = PipelineSchedule::bfs;
    if (p.chunks == 0) plan.request.chunks = static_cast<int>(spec.model.layers) + 2;
  }
  plan.placement = breadth_first ? placement_of(plan.request) : place_stages(p);
  plan.stages = cut_into_stages(spec.model, spec.data.seq_len, p.layers, plan.placement.stages());
  if (!p.recompute.empty() && p.recompute.size() != plan.stages.size())
    throw ConfigError(fmt::format(
        "parallel.pipeline.recompute has {} entr{} for {} stages (ranks x chunks); use `auto`, or one for each stage",
        p.recompute.size(), p.recompute.size() == 1 ? "y" : "ies", plan.stages.size()));
  plan.lowering.costs = costs_of(spec.model, spec.data.seq_len, plan.stages);
  plan.lowering.gather = spec.parallel.zero_stage == 3 || offloaded;
  plan.lowering.w_needs_weights = spec.memory.mlp_tile_tokens > 0;
  plan.lowering.resident = static_cast<int>(p.resident_stages);
  if (often && !breadth_first) plan.lowering.reduce_every = 1;  // under zeropp: once for each of its units
  return plan;
}

}  // namespace fp
