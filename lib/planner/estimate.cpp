#include "planner/estimate.h"

#include <algorithm>
#include <map>

#include "config/model_facts.h"
#include "dryrun/device_reserve.h"
#include "dryrun/setup.h"
#include "pipeline/closed_forms.h"
#include "planner/device_share.h"
#include "planner/memory.h"
#include "planner/part_costs.h"
#include "planner/step_time.h"
#include "sharding/arrange.h"

namespace fp {
namespace {

constexpr double kGiB = 1 << 30;
constexpr int kDryRuns = 2;  // ranks whose memory an estimate computes exactly

// The keys on which part costs depend and in which the plans of a run may differ.
std::string key_of(const RunSpec& s, Recompute recompute, int ranks_per_node) {
  const MemorySection& m = s.memory;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}", s.parallel.tensor, s.parallel.sequence, s.parallel.megatron_sp,
                     s.train.micro_batch, recompute, s.precision.compute, m.offload.activations,
                     m.sequence_chunk_tokens, m.mlp_tile_tokens, m.loss_chunk_tokens, ranks_per_node);
}

// Bytes of a rank's parameters, gradients and optimizer state, which ZeRO shards over `sharers` ranks.
double state_bytes(const RunSpec& s, double parameters, double sharers) {
  const bool narrow = s.precision.compute == DType::bf16;
  const double weights = narrow ? 2 : 0, gradients = s.precision.gradients == DType::bf16 ? 2 : 4;
  const double optimizer = saved_bytes(s.optimizer.kind, matrix_fraction(s.model));
  const bool on_host = s.memory.offload.weights == Offload::host;  // sharded by all stages
  const int64_t zero = on_host && s.parallel.zero_stage > 0 ? 3 : s.parallel.zero_stage;
  return parameters * (weights / (zero >= 3 ? sharers : 1) + gradients / (zero >= 2 ? sharers : 1) +
                       (narrow ? optimizer : optimizer - 4) / (zero >= 1 ? sharers : 1) +
                       (narrow ? 0 : 4) / (zero >= 3 ? sharers : 1));
}

// Returns how many of the ranks with shards of the same parameters are on a node, if sums go through several; else 1.
int sharers_of_node(const RunSpec& s, const Mesh& mesh) {
  return ranks_that_share_errors(mesh, nodes_of(s.parallel, mesh.size()));
}

// Bytes for each parameter of what a rank keeps of the weights that its node has gathered.
double kept_of_node(const RunSpec& s, const Mesh& mesh) {
  if (!s.communication.node_weights || s.parallel.zero_stage < 3) return 0;
  const int sharers = sharers_of_node(s, mesh);
  return sharers > 1 ? (s.precision.compute == DType::bf16 ? 2.0 : 4.0) / sharers : 0;
}

// Bytes for each parameter of what a rank keeps of the errors of quantized sums.
double kept_errors(const RunSpec& s, const Mesh& mesh) {
  if (s.communication.error_feedback == 0 || s.communication.gradient_bits == 0 || mesh.data(0).size() == 1) return 0;
  return 2.0 / sharers_of_node(s, mesh);
}

// Bytes of a rank's state in host memory, and of its buffers on the device.
double offloaded_bytes(const RunSpec& s, double parameters, double sharers) {
  if (s.memory.offload.optimizer == Offload::none) return 0;
  const bool weights = s.memory.offload.weights == Offload::host;
  double each = offloaded_bytes(s.optimizer.kind, matrix_fraction(s.model), s.precision.compute, weights);
  if (weights) each += (s.precision.compute == DType::bf16 ? 2 : 0) + (s.precision.gradients == DType::bf16 ? 2 : 4);
  return each * parameters / (s.parallel.zero_stage >= 1 ? sharers : 1);
}
double offload_buffers(const RunSpec& s) {
  if (s.memory.offload.optimizer == Offload::none || s.memory.offload.device_share == 0) return 0;
  const UpdateBytes b = update_bytes(s);
  return (b.state + b.gradient_in + b.weights_out) * static_cast<double>(UpdateBuffers{}.device) *
         static_cast<double>(s.memory.offload.subgroup);
}
// Bytes in host memory for gradients and weights of subgroups that are updated there.
double host_buffers(const RunSpec& s, double elements) {
  if (s.memory.offload.optimizer == Offload::none || s.memory.offload.device_share == 1) return 0;
  const UpdateBytes b = update_bytes(s);
  const double weights = s.precision.compute == DType::bf16 ? b.weights : 0,
               widened = s.precision.gradients == DType::bf16 ? 4 : 0;
  const double early = s.memory.offload.early_gradients ? (s.precision.gradients == DType::bf16 ? 2 : 4) : 0;
  return (static_cast<double>(UpdateBuffers{}.host) * (b.gradient + weights) + widened) *
             std::min(elements, static_cast<double>(s.memory.offload.subgroup)) +
         early * (1 - s.memory.offload.device_share) * elements;
}

// Bytes of the staging area of a rank that saves `saved` bytes.
double staged_bytes(const RunSpec& s, double saved) {
  if (!saves_in_background(s)) return 0;
  const double limit = static_cast<double>(s.checkpoint.staging_mib << 20);
  return limit > 0 ? std::min(saved, limit) : saved;
}

// Parameters of the largest two stages that follow each other.
double largest_neighbours(const std::vector<PartCosts>& stages) {
  double most = static_cast<double>(stages.front().parameters);
  for (size_t i = 1; i < stages.size(); ++i)
    most = std::max(most, static_cast<double>(stages[i - 1].parameters + stages[i].parameters));
  return most;
}

// Bytes of gathered weights and of gradients that are not kept: of whole stages in a pipeline, else of two layers.
double attached_bytes(const RunSpec& s, const Mesh& mesh, const PipelinePlan& plan,
                      const std::vector<PartCosts>& stages, double layer) {
  double stage = 2 * layer;
  if (plan.placement.stages() > 1)
    for (const PartCosts& c : stages) stage = std::max(stage, static_cast<double>(c.parameters));
  double bytes = 0;
  const bool narrow = s.precision.compute == DType::bf16;
  // One comes or leaves while the next one computes.
  if (s.memory.offload.weights == Offload::host) return ((narrow ? 2 : 4) + 4) * largest_neighbours(stages);
  if (s.parallel.zero_stage == 3) bytes += (narrow ? 2 : 4) * stage * std::min(plan.placement.chunks, 2);
  if (s.parallel.zero_stage >= 2 || s.precision.gradients == DType::bf16) bytes += 4 * stage;
  // Meanwhile a second sum may be on its way between nodes (exec/gradient_sync.h).
  const bool two_hops = (s.communication.gradient_bits > 0 || s.communication.by_nodes) && sharers_of_node(s, mesh) > 1;
  if (s.parallel.zero_stage >= 2 && two_hops) bytes += (s.precision.gradients == DType::bf16 ? 2 : 4) * stage / 2;
  return bytes;
}

// Communicators of a rank, without the small ones of some models, which only a dry run counts.
Communicators communicators(const Mesh& mesh) {
  Communicators c;
  c.groups = (mesh.tp() > 1) + (mesh.sp() > 1) + (mesh.data(0).size() > 1);
  c.pairs = std::min(mesh.pp() - 1, 2);  // one with each neighbour
  return c;
}

}  // namespace

class Estimator::Impl {
 public:
  Impl(const ClusterSpec& cluster, const Ops* cpu) : cluster_(cluster), counting_(counting_ops_for(cluster, cpu)) {}

  Estimate estimate(const RunSpec& given, int ranks, bool exact) {
    const CostModel costs(cluster_, ranks);
    if (!(given.model == run_.model && given.data == run_.data && given.train.objective == run_.train.objective)) {
      known_.clear();
      run_ = given;
    }
    Estimate e;
    e.spec = given;
    e.ranks = ranks;
    e.spec.parallel.node_size = costs.ranks_per_node();
    const Mesh mesh = arrange(e.spec, ranks);
    const PipelinePlan plan = plan_pipeline(e.spec);
    const int micro_batches = step_sizes(e.spec.train, mesh.dp()).back();
    const CostsOf costs_of = [&](Recompute recompute) -> const ModelCosts& { return parts(e.spec, recompute, costs); };
    e.time = exact ? step_time(e.spec, plan, mesh, costs, costs_of, *counting_, micro_batches)
                   : quick_step_time(e.spec, plan, mesh, costs, costs_of, *counting_, micro_batches);
    e.memory = exact ? worst_rank_memory(e.spec, ranks, cluster_, *counting_, kDryRuns)
                     : quick_memory(e.spec, plan, mesh, costs_of, micro_batches);
    const double tokens = static_cast<double>(e.spec.train.global_batch * e.spec.data.seq_len) *
                          (e.spec.train.objective == Objective::dpo ? 2 : 1);
    e.tokens_per_s = tokens / e.time.total;
    const double flops = e.tokens_per_s * model_flops_per_token(e.spec.model, e.spec.data.seq_len) / ranks;
    e.model_tflops = flops / 1e12;
    const double peak = costs.peak_flops(e.spec.precision.compute);
    e.mfu = peak > 0 ? flops / peak : 0;
    e.bubble = e.time.bubble / e.time.total;
    return e;
  }

  RankMemory memory(RunSpec spec, int ranks) {
    spec.parallel.node_size = CostModel(cluster_, ranks).ranks_per_node();
    return worst_rank_memory(spec, ranks, cluster_, *counting_);
  }

 private:
  const ModelCosts& parts(const RunSpec& spec, Recompute recompute, const CostModel& costs) {
    const std::string key = key_of(spec, recompute, costs.ranks_per_node());
    auto it = known_.find(key);
    if (it == known_.end()) it = known_.emplace(key, part_costs(spec, recompute, costs, *counting_)).first;
    return it->second;
  }

  RankMemory quick_memory(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh, const CostsOf& costs_of,
                          int micro_batches) {
    const std::vector<PartCosts> stages = stage_costs(spec, plan, costs_of);
    const double sharers = static_cast<double>(mesh.data(0).size());
    ScheduleRequest request = plan.request;
    request.micro_batches = micro_batches;
    const double worst = plan.placement.stages() == 1 || plan.from_file ? 1 : held_micro_batches(request);
    const bool fewer = !request.w_pass && (request.kind == PipelineSchedule::one_f_one_b ||
                                           request.kind == PipelineSchedule::zb_h1);  // on later ranks
    const bool splits = request.w_pass || splits_weight_gradients(request.kind);
    const double attached = attached_bytes(spec, mesh, plan, stages,
                                           static_cast<double>(costs_of(spec.memory.recompute).layer(0).parameters));
    const bool on_gpu = cluster_.device == ClusterDevice::cuda;
    const double of_node = kept_of_node(spec, mesh) + kept_errors(spec, mesh);
    const double saved = checkpoint_bytes_per_parameter(spec, spec.model, mesh);  // for each parameter
    RankMemory most;
    double offloaded = 0, staging = 0;
    const bool budget = spec.memory.has_budget();
    for (int r = 0; r < plan.placement.ranks; ++r) {
      PartCosts all;
      for (const int s : plan.placement.stages_of(r)) all += stages[static_cast<size_t>(s)];
      const int64_t working = *std::max_element(all.bytes.working.begin(), all.bytes.working.end());
      const double moved = offloaded_bytes(spec, static_cast<double>(all.parameters), sharers);
      const double buffers =
          host_buffers(spec, static_cast<double>(all.parameters) / (spec.parallel.zero_stage >= 1 ? sharers : 1));
      const double held =
          (fewer ? std::clamp<double>(plan.placement.ranks - r, 1, worst) : worst) / plan.placement.pipes();
      const double inputs =
          held * static_cast<double>(all.bytes.offloaded) + static_cast<double>(all.bytes.offloaded_working);
      const double away = moved + buffers + inputs,
                   staged = staged_bytes(spec, saved * static_cast<double>(all.parameters) / sharers);
      offloaded = std::max(offloaded, away);
      staging = std::max(staging, staged);
      const double passes =
          attached +
          held * static_cast<double>(splits ? std::max(all.bytes.forward, all.bytes.backward) : all.bytes.forward) +
          static_cast<double>(working + 4 * all.bytes.boundary) +
          (spec.breadth_first() && spec.memory.offload.activations == Offload::none
               ? held * static_cast<double>(all.bytes.boundary)
               : 0);
      const double device =
          of_node * static_cast<double>(all.parameters) +
          state_bytes(spec, static_cast<double>(all.parameters), sharers) - moved +
          std::max(passes, std::min(offload_buffers(spec), static_cast<double>(UpdateBuffers{}.device) * moved));
      const double bytes = device + (on_gpu ? 0 : away + staged);
      if (budget ? static_cast<int64_t>(device) <= most.device_bytes : static_cast<int64_t>(bytes) <= most.bytes)
        continue;
      most.bytes = static_cast<int64_t>(bytes);
      most.device_bytes = static_cast<int64_t>(device);
      most.rank = mesh.rank_of({r, 0, 0, 0});
    }
    const int64_t reserved = static_cast<int64_t>(cluster_.reserved_gib * kGiB) +
                             (on_gpu ? static_cast<int64_t>(device_reserve(communicators(mesh))) : 0);
    most.bytes += reserved;
    if (on_gpu) most.device_bytes += reserved;
    most.available = usable_bytes(cluster_, cluster_.memory_gib);
    set_budget(most, spec.memory);
    const int64_t per_node = std::min<int64_t>(mesh.size(), cluster_.ranks_per_node);
    most.node_offloaded = static_cast<int64_t>(offloaded) * per_node;
    most.node_staging = static_cast<int64_t>(staging) * per_node;
    if (!on_gpu) {
      most.node_bytes = most.bytes * per_node;
      most.node_available = most.available;
    } else if (most.host_bytes() > 0 && cluster_.host_memory_gib > 0) {
      most.node_bytes = most.host_bytes();
      most.node_available = usable_bytes(cluster_, cluster_.host_memory_gib);
    }
    return most;
  }

  const ClusterSpec& cluster_;
  std::unique_ptr<CountingOps> counting_;
  RunSpec run_;  // the run of the known costs
  std::map<std::string, ModelCosts> known_;
};

Estimator::Estimator(const ClusterSpec& cluster, const Ops* cpu) : impl_(std::make_unique<Impl>(cluster, cpu)) {}
Estimator::~Estimator() = default;
Estimate Estimator::estimate(const RunSpec& spec, int ranks) { return impl_->estimate(spec, ranks, true); }
Estimate Estimator::quick_estimate(const RunSpec& spec, int ranks) { return impl_->estimate(spec, ranks, false); }
RankMemory Estimator::memory(const RunSpec& spec, int ranks) { return impl_->memory(spec, ranks); }

}  // namespace fp
