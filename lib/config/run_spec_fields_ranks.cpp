// Fields of the sections parallel, communication and watchdog.
#include "config/run_spec_fields.h"

namespace fp {

constexpr double kMaxRanks = 1 << 20;

void declare(Fields& f, PipelineSection& s) {
  f.add("ranks", s.ranks,
        {.doc = "Pipeline-parallel ranks, which hold different layers. 1: no pipeline.",
         .unit = "ranks",
         .min = 1,
         .max = 4096});
  f.add("schedule", s.schedule,
        {.doc = "Pipeline schedule. `fptrain schedule` shows time, bubble and memory of each, also as a picture. "
                "chimera, bitpipe and dualpipe run two pipes in opposite directions and hold every stage twice. With "
                "one rank, bfs passes all micro-batches of a step through a layer before the next layer (layered "
                "gradient accumulation), so that ZeRO 3 gathers weights twice a step instead of twice for each "
                "micro-batch, and sums gradients once; all micro-batches are then in flight."});
  f.add("schedule_file", s.schedule_file,
        {.doc = "A schedule as CSV (as written by `fptrain schedule --csv`), instead of `schedule` and the keys below "
                "that configure it. It is verified before it runs."});
  f.add("chunks", s.chunks,
        {.doc = "interleaved, bfs, interleaved-zb, zeropp, wave: stages of each rank. 0: the default of the schedule; "
                "with one rank, a stage for the embedding, each layer and the LM head.",
         .min = 0,
         .max = 1024});
  f.add("group", s.group,
        {.doc = "interleaved, interleaved-zb: consecutive micro-batches of a chunk. 0: the number of ranks; "
                "interleaved-zb may take a few more, so that all groups are equal.",
         .unit = "micro-batches",
         .min = 0,
         .max = 1 << 20});
  f.add("unit_size", s.unit_size,
        {.doc = "zeropp: micro-batches of a scheduling unit. Larger units gather weights less often and hold more "
                "activations. 0: twice the number of ranks or as many as ranks, if that divides the micro-batches, "
                "else all of them.",
         .unit = "micro-batches",
         .min = 0,
         .max = 1 << 20});
  f.add("unit_warmup", s.unit_warmup,
        {.doc = "zeropp: 1 takes less memory, 2 leaves no bubble between units (needs unit_size >= 2 * ranks - 1). 0: "
                "2 if possible, else 1.",
         .min = 0,
         .max = 2});
  f.add("window", s.window,
        {.doc = "wave: micro-batches in flight. 0: twice the number of ranks.",
         .unit = "micro-batches",
         .min = 0,
         .max = 1 << 20});
  f.add("w_pass", s.w_pass,
        {.doc = "Split weight gradients off the backward passes and move them into the bubbles (zero bubble), for "
                "schedules that do not do so by themselves."});
  f.add("memory_cap", s.memory_cap,
        {.doc = "w_pass: maximum number of stages x micro-batches whose activations a rank holds. 0: as many as "
                "without w_pass.",
         .min = 0,
         .max = 1 << 20});
  f.add("layers", s.layers,
        {.doc = "Number of layers of each stage (ranks x chunks numbers). auto: minimises the time of the slowest "
                "stage, LM head included.",
         .min = 0,
         .max = 1 << 20,
         .empty = "auto"});
  f.add("recompute", s.recompute,
        {.doc = "memory.recompute for each stage. auto: memory.recompute for all.", .empty = "auto"});
  f.add("resident_stages", s.resident_stages,
        {.doc = "ZeRO 3 and weights in host memory: maximum number of stages of a rank whose weights are on the "
                "device at the same time.",
         .unit = "stages",
         .min = 1,
         .max = 1024});
}

void declare(Fields& f, ParallelSection& s) {
  f.add(
      "auto", s.open,
      {.doc = "Keys that the planner chooses, so that a step takes the least time within the available memory. Keys "
              "that you have written keep their values. `parallel: auto` is short for [all]. `memory: auto` adds "
              "`memory` to the list, also to one that `--set` gives, unless that is empty. `pipeline` stands for its "
              "four keys, and `memory` for the eight keys from recompute to subgroup, which belong to the section "
              "`memory` (device_share and subgroup to its part `offload`; they are for offloaded state). micro_batch "
              "is train.micro_batch. node_weights and gradient_bits belong to `communication`; gradients are quantized "
              "only within `max_gradient_error`.",
       .choices = {"all",
                   "tensor",
                   "sequence",
                   "pipeline",
                   "pipeline.ranks",
                   "pipeline.schedule",
                   "pipeline.chunks",
                   "pipeline.w_pass",
                   "data",
                   "zero_stage",
                   "megatron_sp",
                   "micro_batch",
                   "memory",
                   "recompute",
                   "offload.activations",
                   "mlp_tile_tokens",
                   "sequence_chunk_tokens",
                   "offload.optimizer",
                   "offload.weights",
                   "device_share",
                   "subgroup",
                   "node_weights",
                   "gradient_bits"}});
  f.add("tensor", s.tensor,
        {.doc = "Tensor-parallel ranks, which split every layer: heads, MLP columns and vocabulary (Megatron-LM). Best "
                "within a node.",
         .unit = "ranks",
         .min = 1,
         .max = kMaxRanks});
  f.add("pipeline", s.pipeline, {.doc = "Pipeline parallelism: ranks that hold different layers, and their schedule."});
  f.add("sequence", s.sequence,
        {.doc = "Sequence-parallel ranks, which split the tokens of every sequence and exchange tokens for heads "
                "around attention (DeepSpeed-Ulysses). Sequences that do not divide evenly are padded.",
         .unit = "ranks",
         .min = 1,
         .max = kMaxRanks});
  f.add("data", s.data,
        {.doc = "Data-parallel ranks, which split every batch. 0: all ranks that the other degrees leave.",
         .unit = "ranks",
         .min = 0,
         .max = kMaxRanks});
  f.add("megatron_sp", s.megatron_sp,
        {.doc = "Tensor-parallel ranks also split the tokens where weights are not split (norms, dropout, residuals): "
                "less memory for the same traffic."});
  f.add("zero_stage", s.zero_stage,
        {.doc = "State that ranks with the same weights (data x sequence) shard (ZeRO). 0: none. 1: optimizer state. "
                "2: also gradients. 3: also weights, which are gathered layer by layer before their use.",
         .min = 0,
         .max = 3});
  f.add(
      "allow_gpu_sharing", s.allow_gpu_sharing,
      {.doc = "Allow several ranks to use the same GPU; they then communicate through host memory. For experiments."});
  f.add("ranks_per_node", s.ranks_per_node,
        {.doc = "Ranks per node, as traffic is counted and collectives are arranged: rank r is on node r / "
                "ranks_per_node. 0: ranks with the same host name are on one node.",
         .unit = "ranks",
         .min = 0,
         .max = kMaxRanks});
  f.add("cluster", s.cluster,
        {.doc = "Cluster description for the planner: a file written by `fptrain bench all --write-cluster`, or the "
                "name of one in `configs/clusters/`. Relative paths start at the run spec, then at the working "
                "directory. Empty: times are not predicted."});
}

namespace {

// How gradients are quantized, beside their bits.
void declare_quantization(Fields& f, CommunicationSection& s) {
  f.add("rotate_gradients", s.rotate_gradients,
        {.doc = "Multiply every 32 gradients by a Hadamard matrix before they are quantized, and the sums again "
                "afterwards: an outlier spreads over the 32, and the others keep more of their precision (SDP4Bit). "
                "Needs a `block` that is a multiple of 32."});
  f.add(
      "max_gradient_error", s.max_gradient_error,
      {.doc =
           "Limit on the error that `gradient_bits` may cause in a parameter's gradients: the mean relative error of "
           "the elements, in which an element that becomes 0 counts 1. Where the error, measured in every step on a "
           "sample, is above the limit, the gradients of this parameter are sent with 8 bits, or unquantized, and with "
           "them the whole layer where they are more than a quarter of it; the first step sends all gradients "
           "unquantized. Gradients without outliers have an error of about 0.3 with 4 "
           "bits in blocks of 256, and of 0.03 with 8. With `parallel: auto` it lets the planner choose "
           "`gradient_bits`, if that is not written. Without `gradient_bits` it has no effect. 0: no limit.",
       .min = 0,
       .max = 1});
  f.add("error_feedback", s.error_feedback,
        {.doc =
             "Error feedback (LoCo): keep the error of the last quantization of sums with `gradient_bits`, and add it "
             "to the next sum. What is kept is a moving average, in which the newest error has this weight. 0: off. "
             "Where sums go through nodes, each node keeps its own errors, else each rank. Memory: 2 bytes for each "
             "parameter, divided by the ranks of a node if the node keeps them; checkpoints have 2 bytes more for each "
             "parameter and each of these nodes or ranks, of which there may be 48. A run that resumes with another "
             "number of them begins without errors.",
         .min = 0,
         .max = 1});
  f.add("error_feedback_steps", s.error_feedback_steps,
        {.doc = "Number of updates after which the errors that `error_feedback` keeps are reset to 0. 0: never.",
         .unit = "updates",
         .min = 0,
         .max = 1'000'000'000});
}

}  // namespace

void declare(Fields& f, CommunicationSection& s) {
  f.add("overlap", s.overlap,
        {.doc =
             "Overlap communication with computation: tensor-parallel communication, in pieces (`tensor_pieces`) "
             "and during weight gradients; the gather of updated weights of ZeRO 1 and 2, during the next forward pass "
             "(not with `by_nodes` or `weight_differences`). false: wait for each communication where it starts, "
             "for comparisons. Results are the same."});
  f.add("tensor_pieces", s.tensor_pieces,
        {.doc =
             "Largest number of pieces into which tensor-parallel communication around attention and MLP is split, "
             "so that some pieces are in flight while others are computed. A piece has at least 256 rows of each rank. "
             "1: no splitting. With megatron_sp, gradients of weights are summed in an order that depends on it.",
         .unit = "pieces",
         .min = 1,
         .max = 64});
  f.add("by_nodes", s.by_nodes,
        {.doc =
             "Hierarchical collectives: where ranks with shards (ZeRO 1 to 3) are on several nodes, the same number on "
             "each, send each value between two nodes only once. Gathers pass shards on within the node; sums are "
             "taken within nodes first, and are therefore rounded in another order. Useful on few nodes: N ranks on n "
             "nodes send M(n-1)/n bytes from a node instead of M(N-1)/N. Sums that `gradient_bits` quantizes are "
             "hierarchical in any case."});
  f.add(
      "weight_bits", s.weight_bits,
      {.doc = "Bits per element of the weights that ZeRO 3 gathers (qwZ), or of the differences that "
              "`weight_differences` sends: every rank computes with the quantized weights and updates its exact ones. "
              "Legal: 0 (not quantized), 4, 8.",
       .unit = "bits",
       .min = 0,
       .max = 8});
  f.add("weight_differences", s.weight_differences,
        {.doc = "After an update, send the differences between the new weights and those that the other ranks hold "
                "(SDP4Bit), in `weight_bits` bits: to all ranks under ZeRO 1 and 2; under ZeRO 3, with `node_weights`, "
                "to the weights that each node keeps, and no other weights leave a node. The quantization error of "
                "one step is part of the next difference. With precision.compute bf16."});
  f.add(
      "node_weights", s.node_weights,
      {.doc = "The ranks of a node keep the weights that they have gathered, a part each, and gather from one another "
              "until the next update (ZeRO 3; hpZ): less traffic between nodes for the memory of that part. Results "
              "are the same."});
  f.add("gradient_bits", s.gradient_bits,
        {.doc = "Bits per element of gradients that are reduce-scattered to shards (ZeRO 1 to 3; qgZ): within nodes, "
                "and once more between nodes. Legal: 0 (not quantized), 4, 8.",
         .unit = "bits",
         .min = 0,
         .max = 8});
  f.add("node_gradient_bits", s.node_gradient_bits,
        {.doc = "Bits per element of these gradients within nodes; `gradient_bits` then applies between nodes only. "
                "Legal: 0 (same as gradient_bits), 4, 8.",
         .unit = "bits",
         .min = 0,
         .max = 8});
  f.add("block", s.block,
        {.doc = "Consecutive elements with a common scale, which takes 4 bytes; a multiple of 8.",
         .unit = "elements",
         .min = 8,
         .max = 8192});
  declare_quantization(f, s);
}

void declare(Fields& f, WatchdogSection& s) {
  f.add("heartbeat_s", s.heartbeat_s,
        {.doc = "Interval at which each rank reports its activity to rank 0. A rank that misses three reports is "
                "called silent.",
         .unit = "seconds",
         .min = 0.1,
         .max = 600});
  f.add("connect_s", s.connect_s,
        {.doc = "Time limit for the ranks to connect to rank 0 once it listens.",
         .unit = "seconds",
         .min = 1,
         .max = 1e6});
  const auto limit = [&](std::string_view key, double& member, std::string_view doc) {
    f.add(key, member, {.doc = doc, .unit = "seconds", .min = 0, .max = 1e9});
  };
  limit("setup_s", s.setup_s, "Maximum time without progress before the first step. 0: no limit.");
  limit("data_s", s.data_s, "Maximum time without progress while a step reads its data. 0: no limit.");
  limit("step_s", s.step_s,
        "Maximum time without progress within a training step; must exceed the longest time that a rank computes "
        "without beginning a layer or a communication. 0: no limit.");
  limit("evaluation_s", s.evaluation_s, "Maximum time without progress while evaluating. 0: no limit.");
  limit("save_s", s.save_s, "Maximum time without progress while saving. 0: no limit.");
  limit("farewell_s", s.farewell_s,
        "Maximum time for the ranks to disconnect after all work is done: MPI lets no rank leave before all have "
        "arrived. 0: no limit.");
}

}  // namespace fp
