// Sections about many ranks.
#include "config/run_spec_fields.h"

namespace fp {

void declare(Fields& f, ParallelSection& s) {
  constexpr double kMaxRanks = 1 << 20;
  f.add(
      "tensor", s.tensor,
      {.doc =
           "Ranks that share every layer: heads, MLP columns and vocabulary are cut (Megatron-LM). Best within a node.",
       .unit = "ranks",
       .min = 1,
       .max = kMaxRanks});
  f.add("pipeline", s.pipeline,
        {.doc = "Ranks that hold consecutive layers. Only 1 in this version.", .unit = "ranks", .min = 1, .max = 1});
  f.add("sequence", s.sequence,
        {.doc =
             "Ranks that share every sequence, a part of its tokens each; around the attention they exchange heads for "
             "tokens (DeepSpeed-Ulysses). Sequences that do not divide are padded.",
         .unit = "ranks",
         .min = 1,
         .max = kMaxRanks});
  f.add("data", s.data,
        {.doc = "Ranks that share every batch. 0: as many as the other degrees leave of the ranks there are.",
         .unit = "ranks",
         .min = 0,
         .max = kMaxRanks});
  f.add("megatron_sp", s.megatron_sp,
        {.doc = "Tensor-parallel ranks also share the tokens where no tensor is cut (norms, dropout, residuals): less "
                "memory for the same traffic."});
  f.add(
      "zero_stage", s.zero_stage,
      {.doc =
           "What the ranks with the same weights (data x sequence) divide among them. 0: nothing. 1: optimizer state. "
           "2: gradients too. 3: weights too, which are gathered layer by layer ahead of their use.",
       .min = 0,
       .max = 3});
  f.add(
      "allow_gpu_sharing", s.allow_gpu_sharing,
      {.doc = "Several ranks may use the same GPU; they then communicate through host memory. For trying things out."});
}

void declare(Fields& f, WatchdogSection& s) {
  f.add("heartbeat_s", s.heartbeat_s,
        {.doc = "How often each rank tells rank 0 what it is doing. After three of them without a word it is called "
                "silent.",
         .unit = "seconds",
         .min = 0.1,
         .max = 600});
  const auto limit = [&](std::string_view key, double& member, std::string_view doc) {
    f.add(key, member, {.doc = doc, .unit = "seconds", .min = 0, .max = 1e9});
  };
  limit("setup_s", s.setup_s, "Longest standstill before the first step. 0: never ends the run.");
  limit("step_s", s.step_s,
        "Longest standstill within a training step: more than its longest stretch without communication. 0: never ends "
        "the run.");
  limit("evaluation_s", s.evaluation_s, "Longest standstill while evaluating. 0: never ends the run.");
  limit("save_s", s.save_s, "Longest standstill while saving. 0: never ends the run.");
}

}  // namespace fp
