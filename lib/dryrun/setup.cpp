#include "dryrun/setup.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/staging.h"
#include "config/model_facts.h"

namespace fp {

ModelSection with_vocab(const ModelSection& section, int64_t tokenizer_vocab) {
  ModelSection m = section;
  if (m.vocab > 0) return m;
  m.vocab = tokenizer_vocab;
  for (const int64_t id : m.masked_ids)
    if (id >= m.vocab)
      throw ConfigError(
          fmt::format("model.masked_ids names {}; the tokenizer of the data has ids 0 to {}", id, m.vocab - 1));
  if (!m.masked_ids.empty() && static_cast<int64_t>(m.masked_ids.size()) >= m.vocab)
    throw ConfigError("model.masked_ids leaves no token of the data's tokenizer to predict");
  return m;
}

ShardFormats shard_formats(const CommunicationSection& c) {
  const auto format = [&](int64_t bits, bool rotated) -> std::optional<BlockFormat> {
    if (bits == 0) return std::nullopt;
    return BlockFormat{static_cast<int>(bits), c.block, rotated};
  };
  const int64_t in_node = c.node_gradient_bits > 0 ? c.node_gradient_bits : c.gradient_bits;
  return {format(c.weight_bits, false),
          format(c.gradient_bits, c.rotate_gradients),
          format(in_node, c.rotate_gradients),
          c.node_weights,
          c.weight_differences,
          c.by_nodes,
          c.error_feedback};
}

NodeMap nodes_of(const ParallelSection& p, int ranks) {
  const int64_t each = ranks_of_node(p);
  return each > 0 ? NodeMap(ranks, static_cast<int>(each)) : NodeMap();
}

double checkpoint_bytes_per_parameter(const RunSpec& spec, const ModelSection& model, const Mesh& mesh) {
  const double sent_weights = spec.communication.weight_differences ? 2 : 0;
  double errors = 0;
  if (spec.communication.error_feedback > 0 && spec.communication.gradient_bits > 0)
    if (const size_t ranks = mesh.data(0).size(); ranks > 1)
      errors = 2.0 * static_cast<double>(ranks) / ranks_that_share_errors(mesh, nodes_of(spec.parallel, mesh.size()));
  return saved_bytes(spec.optimizer.kind, matrix_fraction(model)) + sent_weights + errors;
}

ModelOptions model_options(const RunSpec& spec) {
  ModelOptions o;
  o.compute = spec.precision.compute;
  o.optimizer = spec.optimizer.kind;
  o.gradients = spec.precision.gradients;
  o.zero_stage = static_cast<int>(spec.parallel.zero_stage);
  o.megatron_sp = spec.parallel.megatron_sp;
  o.recompute = spec.memory.recompute;
  o.sequence_chunk = spec.memory.sequence_chunk_tokens;
  o.mlp_tile = spec.memory.mlp_tile_tokens;
  o.seed = spec.run.seed;
  o.positions = spec.data.seq_len;
  o.offload_optimizer = spec.memory.offload.optimizer == Offload::host;
  o.subgroup_elements = spec.memory.offload.subgroup;
  o.offload_activations = spec.memory.offload.activations == Offload::host;
  o.offload_weights = spec.memory.offload.weights == Offload::host;
  o.formats = shard_formats(spec.communication);
  o.tensor_pieces = spec.communication.tensor_pieces;
  o.overlap = spec.communication.overlap;
  return o;
}

ExecutorOptions executor_options(const RunSpec& spec) {
  ExecutorOptions o;
  o.loss = {spec.train.z_loss, spec.memory.loss_chunk_tokens};
  if (spec.precision.stochastic_rounding) o.rounding_seed = spec.run.seed;
  o.device_share = spec.memory.offload.device_share;
  o.early_gradients = spec.memory.offload.early_gradients;
  o.check_sums = spec.train.check_sums && spec.communication.gradient_bits == 0;
  o.max_gradient_error = spec.communication.max_gradient_error;
  o.error_feedback_steps = spec.communication.error_feedback_steps;
  if (spec.train.objective == Objective::dpo) o.loss.dpo = spec.train.dpo;
  return o;
}

ModelOptions model_options(const RunSpec& spec, const PipelinePlan& plan, int pipeline_rank) {
  ModelOptions o = model_options(spec);
  o.held = held_by(plan.stages, plan.placement, pipeline_rank);
  const std::vector<Recompute>& by_stage = spec.parallel.pipeline.recompute;
  for (size_t s = 0; s < by_stage.size(); ++s)
    o.layer_recompute.insert(o.layer_recompute.end(), static_cast<size_t>(plan.stages[s].layers), by_stage[s]);
  return o;
}

ExecutorOptions executor_options(const RunSpec& spec, const PipelinePlan& plan) {
  ExecutorOptions o = executor_options(spec);
  o.pipeline = plan;
  return o;
}

std::vector<int> step_sizes(const TrainSection& t, int data_ranks) {
  const int64_t each = t.micro_batch * data_ranks;
  std::vector<int> sizes;
  if (t.ramp_start_batch > 0)
    for (int64_t b = t.ramp_start_batch; b < t.global_batch; b += t.ramp_increment)
      sizes.push_back(static_cast<int>(b / each));
  sizes.push_back(static_cast<int>(t.global_batch / each));
  return sizes;
}

int64_t sample_positions(const RunSpec& spec) {
  constexpr int64_t kPutBefore = 16;  // tokens that a tokenizer puts before a text, beyond one for each byte
  const auto bytes = static_cast<int64_t>(spec.eval.sample_prompt.size());
  return std::min(spec.data.seq_len, bytes + kPutBefore + spec.eval.sample_tokens);
}

bool saves_in_background(const RunSpec& spec) {
  return spec.checkpoint.asynchronous && spec.checkpoint.every > 0 && spec.checkpoint.every < spec.train.steps;
}

size_t staging_bytes(const RunSpec& spec, const ParamTable& table) {
  if (!saves_in_background(spec)) return 0;
  return Staging::bytes_for(table, static_cast<size_t>(spec.checkpoint.staging_mib) << 20);
}

std::string describe_model(const ModelSection& m) {
  const std::string kv = m.kv_heads != m.heads ? fmt::format(" ({} kv)", m.kv_heads) : "";
  return fmt::format("{}, {} layers x {}, {} heads{} of {}, ffn {}, vocabulary {}", m.family, m.layers, m.hidden,
                     m.heads, kv, m.head_dim, m.ffn, m.vocab);
}

}  // namespace fp
