// Sections about many ranks.
#include "config/run_spec_fields.h"

namespace fp {

constexpr double kMaxRanks = 1 << 20;

void declare(Fields& f, PipelineSection& s) {
  f.add("ranks", s.ranks,
        {.doc = "Ranks that share the layers. 1: no pipeline.", .unit = "ranks", .min = 1, .max = 4096});
  f.add(
      "schedule", s.schedule,
      {.doc = "Which micro-batch runs when. `fptrain schedule` compares them: time, bubble, memory, pictures. chimera, "
              "bitpipe and dualpipe run two pipes in opposite directions and hold every stage twice.",
       .choices = {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-v", "interleaved-zb", "chimera",
                   "bitpipe", "dualpipe", "dualpipev", "zeropp", "wave"}});
  f.add("schedule_file", s.schedule_file,
        {.doc = "A schedule as CSV (`fptrain schedule --csv` writes them), in place of `schedule` and the keys below "
                "that shape it. It is verified before it runs."});
  f.add(
      "chunks", s.chunks,
      {.doc = "Stages of a rank that a micro-batch visits; interleaved, bfs, interleaved-zb, zeropp, wave. 0: what the "
              "schedule is known for.",
       .min = 0,
       .max = 1024});
  f.add("group", s.group,
        {.doc = "interleaved, interleaved-zb: micro-batches that a chunk runs in a row. 0: as many as ranks, or, "
                "interleaved-zb, a few more, so that all groups are equal.",
         .unit = "micro-batches",
         .min = 0,
         .max = 1 << 20});
  f.add("unit_size", s.unit_size,
        {.doc = "zeropp: micro-batches of a scheduling unit: more of them gather weights less often and hold more "
                "activations. 0: twice the ranks, or what else divides.",
         .unit = "micro-batches",
         .min = 0,
         .max = 1 << 20});
  f.add("unit_warmup", s.unit_warmup,
        {.doc = "zeropp: 1 holds less, 2 leaves no bubble between units (needs unit_size >= 2 ranks - 1). 0: 2 where "
                "that holds.",
         .min = 0,
         .max = 2});
  f.add(
      "window", s.window,
      {.doc = "wave: micro-batches under way. 0: twice the ranks.", .unit = "micro-batches", .min = 0, .max = 1 << 20});
  f.add("w_pass", s.w_pass,
        {.doc = "Splits weight gradients off the backward passes and moves them into the bubbles (zero bubble), for "
                "schedules that do not do so anyway."});
  f.add("memory_cap", s.memory_cap,
        {.doc = "w_pass: stages x micro-batches whose activations a rank may hold. 0: as many as without w_pass.",
         .min = 0,
         .max = 1 << 20});
  f.add("layers", s.layers,
        {.doc = "Layers of each stage (ranks x chunks numbers). auto: so that the most expensive stage costs least, "
                "head included.",
         .min = 0,
         .max = 1 << 20,
         .empty = "auto"});
  f.add("recompute", s.recompute,
        {.doc = "What each stage recomputes, as memory.recompute. auto: that for all.",
         .choices = {"none", "selective", "full"},
         .empty = "auto"});
  f.add("resident_stages", s.resident_stages,
        {.doc = "Under ZeRO 3: stages of a rank whose weights are whole at a time.",
         .unit = "stages",
         .min = 1,
         .max = 1024});
}

void declare(Fields& f, ParallelSection& s) {
  f.add("auto", s.open,
        {.doc = "What the planner chooses, so that a step takes least time and fits; `parallel: auto` is short for "
                "[all]. Keys that are written stay as they are. `pipeline` stands for the four of it; micro_batch is "
                "train.micro_batch, recompute is memory.recompute.",
         .choices = {"all", "tensor", "sequence", "pipeline", "pipeline.ranks", "pipeline.schedule", "pipeline.chunks",
                     "pipeline.w_pass", "data", "zero_stage", "megatron_sp", "micro_batch", "recompute"}});
  f.add(
      "tensor", s.tensor,
      {.doc =
           "Ranks that share every layer: heads, MLP columns and vocabulary are cut (Megatron-LM). Best within a node.",
       .unit = "ranks",
       .min = 1,
       .max = kMaxRanks});
  f.add("pipeline", s.pipeline, {.doc = "Ranks that hold different layers, and what they do in which order."});
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
  f.add("cluster", s.cluster,
        {.doc = "What the planner knows about the machine: a file of `fptrain bench all --write-cluster`, or the name "
                "of one in `configs/clusters/`. Relative paths start at the run spec, then at the working directory. "
                "Empty: times are not predicted."});
}

void declare(Fields& f, WatchdogSection& s) {
  f.add("heartbeat_s", s.heartbeat_s,
        {.doc = "How often each rank tells rank 0 what it is doing. After three of them without a word it is called "
                "silent.",
         .unit = "seconds",
         .min = 0.1,
         .max = 600});
  f.add(
      "connect_s", s.connect_s,
      {.doc = "How long the ranks may take to reach rank 0 once it listens.", .unit = "seconds", .min = 1, .max = 1e6});
  const auto limit = [&](std::string_view key, double& member, std::string_view doc) {
    f.add(key, member, {.doc = doc, .unit = "seconds", .min = 0, .max = 1e9});
  };
  limit("setup_s", s.setup_s, "Longest standstill before the first step. 0: never ends the run.");
  limit("data_s", s.data_s, "Longest standstill while a step reads its data. 0: never ends the run.");
  limit("step_s", s.step_s,
        "Longest standstill within a training step: more than its longest stretch without communication. 0: never ends "
        "the run.");
  limit("evaluation_s", s.evaluation_s, "Longest standstill while evaluating. 0: never ends the run.");
  limit("save_s", s.save_s, "Longest standstill while saving. 0: never ends the run.");
  limit("farewell_s", s.farewell_s,
        "How long ranks may take to part when all is done (MPI waits for each): then they end with the run's code. 0: "
        "for ever.");
}

}  // namespace fp
