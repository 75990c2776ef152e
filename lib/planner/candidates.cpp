#include "planner/candidates.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "config/model_facts.h"
#include "config/open_keys.h"
#include "config/validate.h"
#include "dryrun/device_reserve.h"
#include "dryrun/setup.h"
#include "model/groups.h"
#include "planner/gradient_bits.h"
#include "planner/memory.h"
#include "sharding/arrange.h"
#include "sharding/pipeline_plan.h"

namespace fp {
namespace {

// gpipe, dualpipe and wave are left out: others here take no longer and need less memory.
constexpr std::array kSchedules = {
    PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::interleaved_zb,
    PipelineSchedule::zb_h1,       PipelineSchedule::zb_h2,       PipelineSchedule::zb_v,
    PipelineSchedule::dualpipev,   PipelineSchedule::bfs,         PipelineSchedule::chimera,
    PipelineSchedule::bitpipe,     PipelineSchedule::zeropp};
constexpr int64_t kMostChunks = 16;
constexpr double kUneven = 1.2;  // largest ratio of the worst stage's work to the mean that is considered

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> list;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) list.push_back(d);
  return list;
}

bool passes(void (*checks)(const RunSpec&, Checker&), const RunSpec& spec) {
  const Written nothing;
  Problems problems;
  Checker check(nothing, "", problems);
  checks(spec, check);
  return problems.empty();
}
bool passes_checks(const RunSpec& spec) { return passes(check_run, spec); }

// Throws as PipelinePlan::step() would, mostly without generating the schedule.
void require_schedule(const RunSpec& spec) {
  const PipelineSection& p = spec.parallel.pipeline;
  const int64_t stages = place_stages(p).stages();
  const auto fits = [&](const auto& list) { return list.empty() || static_cast<int64_t>(list.size()) == stages; };
  if (stages > spec.model.layers + 2 || !fits(p.layers) || !fits(p.recompute)) throw ConfigError("stages");
  for (const int n : step_sizes(spec.train, static_cast<int>(spec.parallel.data))) {
    ScheduleRequest request = schedule_request(p);
    request.micro_batches = n;
    if (!p.schedule_file.empty() || p.memory_cap > 0)
      plan_pipeline(spec).step(n);
    else
      complete(request);
  }
}

}  // namespace

bool is_legal(const RunSpec& spec, const Plan& plan, int ranks) {
  RunSpec s = with_plan(spec, plan);
  if (!passes_checks(s)) return false;
  try {
    arrange(s, ranks);
    if (plan.pipeline > 1)
      require_schedule(s);
    else if (s.breadth_first())
      plan_pipeline(s);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

Candidates::Candidates(const RunSpec& spec, int ranks, const ClusterSpec& cluster)
    : spec_(spec),
      given_(plan_of(spec)),
      ranks_(ranks),
      savings_(spec_, ranks, cluster),
      node_(std::min<int64_t>(ranks, cluster.ranks_per_node)),
      fewest_bits_(fewest_gradient_bits(spec.communication)) {
  const double sharers = cluster.device == ClusterDevice::cpu ? static_cast<double>(node_) : 1;
  const double usable = static_cast<double>(usable_bytes(cluster, cluster.memory_gib));
  device_bytes_ = usable / sharers - cluster.reserved_gib * static_cast<double>(1 << 30);
  if (cluster.device == ClusterDevice::cuda) device_bytes_ -= static_cast<double>(kReservedForLibraries);
}

bool Candidates::open(std::string_view key) const { return is_open(spec_, key); }

std::vector<Plan> Candidates::arrangements() const {
  std::vector<Plan> list;
  const auto degrees = [&](const char* key, int64_t written, int64_t of) {
    std::vector<int64_t> d = divisors(of);
    if (!open(key)) std::erase_if(d, [&](int64_t n) { return n != written; });
    return d;
  };
  Plan p = given_;
  for (const int64_t tensor : degrees("tensor", p.tensor, ranks_)) {
    if (open("tensor") && node_ % tensor != 0 && tensor % node_ != 0) continue;
    for (const int64_t sequence : degrees("sequence", p.sequence, ranks_ / tensor))
      for (const int64_t pipeline : degrees("pipeline.ranks", p.pipeline, ranks_ / tensor / sequence)) {
        p.tensor = tensor;
        p.sequence = sequence;
        p.pipeline = pipeline;
        p.data = ranks_ / tensor / sequence / pipeline;
        const bool data_is_free = open("data") || given_.data == 0;
        if (tensor * sequence > spec_.model.heads || pipeline > spec_.model.layers + 2) continue;
        if ((data_is_free || p.data == given_.data) && spec_.train.global_batch % p.data == 0) list.push_back(p);
      }
  }
  return list;
}

// Powers of two that divide the number of samples of a data rank, and that number.
std::vector<int64_t> Candidates::micro_batches(int64_t data) const {
  if (!open("micro_batch")) return {given_.micro_batch};
  std::vector<int64_t> list;
  const int64_t samples = spec_.train.global_batch / data;
  for (int64_t b = 1; b <= samples && samples % b == 0; b *= 2) list.push_back(b);
  if (list.back() != samples) list.push_back(samples);
  return list;
}

// Compares the memory of an average rank with that of its device: its state, sharded as far as possible, and the least
// activations, which are the input of each layer.
bool Candidates::may_fit(const Plan& p) const {
  const bool narrow = spec_.precision.compute == DType::bf16;
  const double weights = narrow ? 2 : 4, gradients = spec_.precision.gradients == DType::bf16 ? 2 : 4;
  const OffloadSection& offload = spec_.memory.offload;
  const bool leaves = may_be_offloaded("offload.optimizer", offload.optimizer);
  const double optimizer =
      leaves ? 0 : saved_bytes(spec_.optimizer.kind, matrix_fraction(spec_.model)) - (narrow ? 0 : 4);
  const int64_t zero = open("zero_stage") ? 3 : p.zero_stage;
  const auto sharers = static_cast<double>(p.data * p.sequence);
  const auto part = [&](int stage) { return zero >= stage ? 1 / sharers : 1; };
  const auto ranks = static_cast<double>(p.tensor * p.pipeline);
  const double states = static_cast<double>(parameter_count(spec_.model)) / ranks *
                        (weights * part(3) + gradients * part(2) + optimizer * part(1));
  const int64_t held = std::min(p.pipeline, spec_.train.global_batch / p.data / p.micro_batch);
  const auto tokens = static_cast<double>(held * p.micro_batch * spec_.data.seq_len);
  const double inputs = tokens / static_cast<double>(p.sequence) * static_cast<double>(spec_.model.hidden) * weights *
                        static_cast<double>(spec_.model.layers) / ranks;
  const bool on_host = savings_.offloads() && p.pipeline == 1 && may_be_offloaded("offload.weights", offload.weights);
  return (on_host ? 0 : states) + (may_be_offloaded("offload.activations", offload.activations) ? 0 : inputs) <=
         device_bytes_;
}

// Returns ZeRO stage 1, or the one that written keys of `communication` need.
int64_t Candidates::least_zero_stage(Plan p) const {
  if (p.data * p.sequence == 1 || spec_.precision.stochastic_rounding) return 0;
  p.zero_stage = 1;
  while (p.zero_stage < 3 && !passes(check_communication, with_plan(spec_, p))) ++p.zero_stage;
  return p.zero_stage;
}

std::vector<int64_t> Candidates::gradient_bits(const Plan& p) const {
  if (!open("gradient_bits")) return {given_.gradient_bits};
  if (p.zero_stage == 0 || fewest_bits_ == 0) return {0};
  return {0, fewest_bits_};
}

std::vector<Plan> Candidates::leads(bool any_size) const {
  std::vector<Plan> list;
  for (Plan p : arrangements()) {
    if (open("pipeline.schedule")) p.schedule = PipelineSchedule::one_f_one_b;
    if (open("pipeline.w_pass")) p.w_pass = false;
    if (open("megatron_sp")) p.megatron_sp = p.tensor > 1;
    if (open("node_weights")) p.node_weights = false;
    if (open("gradient_bits")) p.gradient_bits = 0;
    p = savings_.without(p);
    if (open("zero_stage")) p.zero_stage = least_zero_stage(p);
    for (const int64_t b : micro_batches(p.data)) {
      p.micro_batch = b;
      if (!any_size && !may_fit(p)) continue;
      // With fewer micro-batches than pipeline ranks, most of the time is bubble.
      if (open("micro_batch") && b > 1 && spec_.train.global_batch / p.data / b < p.pipeline) break;
      for (const int64_t bits : gradient_bits(p)) {
        p.gradient_bits = bits;
        const std::vector<Plan> any = schedules(p);
        if (!any.empty()) list.push_back(any.front());
      }
    }
  }
  return list;
}

std::vector<int64_t> Candidates::chunks(const Plan& p) const {
  if (!open("pipeline.chunks")) return {given_.chunks};
  if (!any_chunks(p.schedule)) return {0};
  std::vector<int64_t> list;
  for (int64_t v = 2; v <= kMostChunks && p.pipeline * v <= spec_.model.layers; ++v) {
    const int64_t stages = p.pipeline * v, most = (spec_.model.layers + stages - 1) / stages;
    if (static_cast<double>(most * stages) <= kUneven * static_cast<double>(spec_.model.layers)) list.push_back(v);
  }
  return list;
}

std::vector<Plan> Candidates::schedules(const Plan& lead) const {
  std::vector<Plan> list;
  const auto add = [&](const Plan& p) {
    if (is_legal(spec_, p, ranks_)) list.push_back(p);
  };
  if (lead.pipeline == 1) {
    add(lead);
    return list;
  }
  Plan p = lead;
  const bool any = open("pipeline.schedule");
  for (const PipelineSchedule kind : any ? std::vector<PipelineSchedule>(kSchedules.begin(), kSchedules.end())
                                         : std::vector<PipelineSchedule>{given_.schedule}) {
    p.schedule = kind;
    const bool two_way =
        kind == PipelineSchedule::chimera || kind == PipelineSchedule::bitpipe;  // slow without a W pass
    std::vector<bool> passes = {given_.w_pass};
    if (open("pipeline.w_pass")) passes = any ? std::vector<bool>{two_way} : std::vector<bool>{false, true};
    for (const bool w : passes)
      for (const int64_t v : chunks(p)) {
        p.w_pass = w;
        p.chunks = v;
        add(p);
      }
  }
  return list;
}

bool Candidates::sums_through_nodes(const Plan& p) const {
  RunSpec s = with_plan(spec_, p);
  s.parallel.node_size = node_;
  try {
    return ranks_that_share_errors(arrange(s, ranks_), nodes_of(s.parallel, ranks_)) > 1;
  } catch (const ConfigError&) {
    return false;  // no legal plan
  }
}

std::vector<Plan> Candidates::with_less_memory(const Plan& from) const {
  std::vector<Plan> list;
  const int64_t most = open("zero_stage") && from.zero_stage >= 1 ? 3 : from.zero_stage;
  const CommunicationSection usual;
  const bool may_keep = open("node_weights") && most == 3 && sums_through_nodes(from);
  for (Plan p : savings_.of(from))
    for (int64_t zero = from.zero_stage; zero <= most; ++zero) {
      p.zero_stage = zero;
      for (const bool kept : {true, false}) {
        if (open("node_weights")) p.node_weights = kept && zero == 3 && may_keep;
        if (kept && !p.node_weights) continue;
        // Keys of other sections may need the weights on the device, or exclude a ZeRO stage.
        const bool stage_matters = spec_.communication != usual || !spec_.eval.sample_prompt.empty();
        const bool unsure = p.weights != from.weights || (zero != from.zero_stage && stage_matters);
        if (!unsure || passes_checks(with_plan(spec_, p))) list.push_back(p);
        if (!open("node_weights")) break;
      }
    }
  return list;
}

std::vector<Plan> Candidates::with_more_memory(const Plan& p) const {
  std::vector<Plan> list;
  Plan whole = p;
  whole.zero_stage = 0;
  const bool may_be_whole = open("zero_stage") && p.zero_stage == 1 &&
                            (spec_.communication == CommunicationSection() || passes_checks(with_plan(spec_, whole)));
  if (may_be_whole) list.push_back(whole);
  if (!open("megatron_sp") || !p.megatron_sp) return list;
  list.push_back(p);
  list.back().megatron_sp = false;
  if (!may_be_whole) return list;
  list.push_back(whole);
  list.back().megatron_sp = false;
  return list;
}

std::vector<Plan> Candidates::all() const {
  std::vector<Plan> list;
  for (const Plan& lead : leads())
    for (const Plan& schedule : schedules(lead))
      for (const Plan& p : with_less_memory(schedule)) {
        list.push_back(p);
        for (const Plan& q : with_more_memory(p)) list.push_back(q);
      }
  // No duplicates: siblings of plans with ZeRO stages above 1 differ in Megatron sequence parallelism only.
  return list;
}

}  // namespace fp
