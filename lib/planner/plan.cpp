#include "planner/plan.h"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sharding/arrange.h"

namespace fp {

std::strong_ordering Plan::operator<=>(const Plan& o) const {
  const auto key = [](const Plan& p) {
    return std::tuple(p.tensor, p.sequence, p.pipeline, p.data, name_of(p.schedule), p.chunks, p.w_pass, p.megatron_sp,
                      p.zero_stage, p.micro_batch, p.recompute, p.activations, p.sequence_chunk_tokens,
                      p.mlp_tile_tokens, p.loss_chunk_tokens, p.optimizer, p.weights, p.subgroup,
                      std::bit_cast<int64_t>(p.device_share),  // the same order, as it is not negative
                      p.node_weights, p.gradient_bits);
  };
  return key(*this) <=> key(o);
}

Plan plan_of(const RunSpec& s) {
  const ParallelSection& p = s.parallel;
  Plan plan{p.tensor,
            p.sequence,
            p.pipeline.ranks,
            p.data,
            p.pipeline.schedule,
            p.pipeline.chunks,
            p.pipeline.w_pass,
            p.megatron_sp,
            p.zero_stage,
            s.train.micro_batch,
            s.memory.recompute,
            s.memory.offload.activations,
            s.memory.sequence_chunk_tokens,
            s.memory.mlp_tile_tokens,
            s.memory.loss_chunk_tokens,
            s.memory.offload.optimizer,
            s.memory.offload.weights,
            s.memory.offload.device_share,
            s.memory.offload.subgroup,
            s.communication.node_weights,
            s.communication.gradient_bits};
  return plan;
}

RunSpec with_plan(RunSpec s, const Plan& plan) {
  ParallelSection& p = s.parallel;
  p.open.clear();
  p.tensor = plan.tensor;
  p.sequence = plan.sequence;
  p.pipeline.ranks = plan.pipeline;
  p.data = plan.data;
  p.pipeline.schedule = plan.schedule;
  p.pipeline.chunks = plan.chunks;
  p.pipeline.w_pass = plan.w_pass;
  p.megatron_sp = plan.megatron_sp;
  p.zero_stage = plan.zero_stage;
  s.train.micro_batch = plan.micro_batch;
  s.memory.recompute = plan.recompute;
  s.memory.offload.activations = plan.activations;
  s.memory.sequence_chunk_tokens = plan.sequence_chunk_tokens;
  s.memory.mlp_tile_tokens = plan.mlp_tile_tokens;
  s.memory.loss_chunk_tokens = plan.loss_chunk_tokens;
  s.memory.offload.optimizer = plan.optimizer;
  s.memory.offload.weights = plan.weights;
  s.memory.offload.device_share = plan.device_share;
  s.memory.offload.subgroup = plan.subgroup;
  if (plan.device_share == 1) s.memory.offload.early_gradients = false;  // the host updates nothing
  s.communication.node_weights = plan.node_weights;
  s.communication.gradient_bits = plan.gradient_bits;
  return s;
}

nlohmann::json to_json(const Plan& p) {
  return {{"tensor", p.tensor},
          {"sequence", p.sequence},
          {"pipeline", p.pipeline},
          {"data", p.data},
          {"schedule", name_of(p.schedule)},
          {"chunks", p.chunks},
          {"w_pass", p.w_pass},
          {"megatron_sp", p.megatron_sp},
          {"zero_stage", p.zero_stage},
          {"micro_batch", p.micro_batch},
          {"recompute", name_of(p.recompute)},
          {"offload_activations", name_of(p.activations)},
          {"sequence_chunk_tokens", p.sequence_chunk_tokens},
          {"mlp_tile_tokens", p.mlp_tile_tokens},
          {"loss_chunk_tokens", p.loss_chunk_tokens},
          {"offload_optimizer", name_of(p.optimizer)},
          {"offload_weights", name_of(p.weights)},
          {"device_share", p.device_share},
          {"subgroup", p.subgroup},
          {"node_weights", p.node_weights},
          {"gradient_bits", p.gradient_bits}};
}

Plan plan_from_json(const nlohmann::json& j) {
  const auto recompute = named<Recompute>(j.at("recompute").get<std::string>());
  FP_CHECK(recompute, "recompute {}", j.at("recompute").dump());
  const auto schedule = named<PipelineSchedule>(j.at("schedule").get<std::string>());
  FP_CHECK(schedule, "schedule {}", j.at("schedule").dump());
  const auto activations = named<Offload>(j.at("offload_activations").get<std::string>());
  FP_CHECK(activations, "offload_activations {}", j.at("offload_activations").dump());
  const auto optimizer = named<Offload>(j.at("offload_optimizer").get<std::string>());
  FP_CHECK(optimizer, "offload_optimizer {}", j.at("offload_optimizer").dump());
  const auto weights = named<Offload>(j.at("offload_weights").get<std::string>());
  FP_CHECK(weights, "offload_weights {}", j.at("offload_weights").dump());
  return {j.at("tensor"),
          j.at("sequence"),
          j.at("pipeline"),
          j.at("data"),
          *schedule,
          j.at("chunks"),
          j.at("w_pass"),
          j.at("megatron_sp"),
          j.at("zero_stage"),
          j.at("micro_batch"),
          *recompute,
          *activations,
          j.at("sequence_chunk_tokens"),
          j.at("mlp_tile_tokens"),
          j.at("loss_chunk_tokens"),
          *optimizer,
          *weights,
          j.at("device_share"),
          j.at("subgroup"),
          j.at("node_weights"),
          j.at("gradient_bits")};
}

std::string describe(const Plan& plan) {
  const RunSpec s = with_plan(RunSpec(), plan);
  std::string text = describe(s.parallel);
  if (plan.pipeline > 1 && plan.chunks > 0) text += fmt::format(", {} chunks", plan.chunks);
  text += fmt::format(", micro-batch {}", plan.micro_batch);
  if (plan.recompute != Recompute::none) text += fmt::format(", recompute {}", plan.recompute);
  if (plan.activations == Offload::host) text += ", activations in host memory";
  if (plan.mlp_tile_tokens > 0) text += fmt::format(", MLP in tiles of {}", plan.mlp_tile_tokens);
  if (plan.sequence_chunk_tokens > 0) text += fmt::format(", sequences in chunks of {}", plan.sequence_chunk_tokens);
  if (plan.optimizer == Offload::host)
    text += fmt::format(", optimizer {}in host memory", plan.weights == Offload::host ? "and weights " : "");
  if (plan.node_weights) text += ", weights kept in nodes";
  if (plan.gradient_bits > 0) text += fmt::format(", gradients in {} bits", plan.gradient_bits);
  if (plan.device_share != 1) text += fmt::format(", device share {:g}", plan.device_share);
  return text;
}

std::vector<ChangedKey> list_changed_keys(const Plan& from, const Plan& to) {
  std::vector<ChangedKey> changed;
  const auto each = [&](std::string_view path, const auto& a, const auto& b) {
    if (a != b) changed.push_back({path, fmt::format("{}", b)});
  };
  each("parallel.tensor", from.tensor, to.tensor);
  each("parallel.sequence", from.sequence, to.sequence);
  each("parallel.pipeline.ranks", from.pipeline, to.pipeline);
  each("parallel.pipeline.schedule", from.schedule, to.schedule);
  each("parallel.pipeline.chunks", from.chunks, to.chunks);
  each("parallel.pipeline.w_pass", from.w_pass, to.w_pass);
  each("parallel.data", from.data, to.data);
  each("parallel.megatron_sp", from.megatron_sp, to.megatron_sp);
  each("parallel.zero_stage", from.zero_stage, to.zero_stage);
  each("train.micro_batch", from.micro_batch, to.micro_batch);
  each("memory.recompute", from.recompute, to.recompute);
  each("memory.offload.activations", from.activations, to.activations);
  each("memory.sequence_chunk_tokens", from.sequence_chunk_tokens, to.sequence_chunk_tokens);
  each("memory.mlp_tile_tokens", from.mlp_tile_tokens, to.mlp_tile_tokens);
  each("memory.loss_chunk_tokens", from.loss_chunk_tokens, to.loss_chunk_tokens);
  each("memory.offload.optimizer", from.optimizer, to.optimizer);
  each("memory.offload.weights", from.weights, to.weights);
  each("memory.offload.device_share", from.device_share, to.device_share);
  each("memory.offload.subgroup", from.subgroup, to.subgroup);
  each("communication.node_weights", from.node_weights, to.node_weights);
  each("communication.gradient_bits", from.gradient_bits, to.gradient_bits);
  return changed;
}

std::string changed_keys(const Plan& from, const Plan& to) {
  std::string text;
  for (const ChangedKey& key : list_changed_keys(from, to))
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.path, key.value);
  return text;
}

std::string written_keys(const Plan& plan) { return changed_keys(plan_of(RunSpec()), plan); }

}  // namespace fp
