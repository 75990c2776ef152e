#include "config/cluster_fields.h"

namespace fp {

constexpr double kMaxNodes = 1 << 20;
constexpr std::string_view kRate = "GB/s", kTflops = "TFLOP/s", kMicroseconds = "us", kGib = "GiB";

void declare(Fields& f, ProductRates& s) {
  f.add("op", s.op,
        {.doc = "Which product of a layer: of the forward pass, for the gradient of its inputs, or of its weights.",
         .choices = {"linear", "linear_backward_input", "linear_backward_weight"},
         .required = true});
  f.add("compute", s.compute, {.doc = "The type of its activations.", .choices = {"bf16", "fp32"}, .required = true});
  f.add("tflops", s.tflops,
        {.doc = "Rate of a product that is large in all directions. `seconds = overhead + flops / rate x (1 + "
                "half_tokens / tokens + half_outputs / outputs + half_inputs / inputs)`.",
         .unit = kTflops,
         .min = 0,
         .above_min = true,
         .required = true});
  const auto half = [&](std::string_view key, double& member, std::string_view doc) {
    f.add(key, member, {.doc = doc, .min = 0});
  };
  half("half_tokens", s.half_tokens,
       "With so many tokens, and large in the other directions, it runs at half the rate.");
  half("half_outputs", s.half_outputs, "The same of the layer's outputs.");
  half("half_inputs", s.half_inputs, "The same of the layer's inputs.");
  f.add("overhead_us", s.overhead_us, {.doc = "What each call takes beside.", .unit = kMicroseconds, .min = 0});
}

void declare(Fields& f, OpRates& s) {
  f.add("op", s.op,
        {.doc = "Name of the op. `other`: all that have no line of their own. `seconds = overhead + bytes / gb_per_s + "
                "flops / tflops`.",
         .choices = {"attention",
                     "attention_backward",
                     "attention_merge",
                     "copy_in",
                     "copy_out",
                     "copy",
                     "zero",
                     "cast",
                     "permute",
                     "copy_columns",
                     "round_stochastically",
                     "find_nonfinite",
                     "bit_sums",
                     "piece_sums",
                     "bias_backward",
                     "embedding",
                     "embedding_backward",
                     "norm",
                     "norm_backward_input",
                     "norm_backward_weight",
                     "activation",
                     "activation_backward",
                     "add",
                     "dropout",
                     "split_qkv",
                     "split_qkv_backward",
                     "softmax_stats",
                     "softmax_stats_merge",
                     "cross_entropy",
                     "cross_entropy_backward",
                     "sum_squares",
                     "adamw",
                     "other"},
         .required = true});
  f.add("compute", s.compute,
        {.doc = "`bf16` or `fp32`: of calls on tensors of this type. Empty: of both, where no line says more."});
  f.add("gb_per_s", s.gb_per_s,
        {.doc = "Bytes read and written, each operand once. 0: they cost nothing.", .unit = kRate, .min = 0});
  f.add("tflops", s.tflops, {.doc = "Arithmetic. 0: it costs nothing.", .unit = kTflops, .min = 0});
  f.add("overhead_us", s.overhead_us, {.doc = "What each call takes beside.", .unit = kMicroseconds, .min = 0});
}

void declare(Fields& f, LinkRates& s) {
  f.add("between", s.between,
        {.doc = "`ranks`: of the same node. `nodes`: each rank's share of what its node sends to others.",
         .choices = {"ranks", "nodes"},
         .required = true});
  f.add("kind", s.kind,
        {.doc = "What is sent; `send` is a message between two ranks, `host` the small values that steer a run. `any`: "
                "all that have no line of their own.",
         .choices = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "host", "any"}});
  f.add("latency_us", s.latency_us,
        {.doc = "Of two ranks; of N it is ceil(log2 N) times that. `seconds = latency + bytes that a rank sends / "
                "gb_per_s`, of N - 1 of N parts; an all_reduce sends each part twice.",
         .unit = kMicroseconds,
         .min = 0});
  f.add("gb_per_s", s.gb_per_s,
        {.doc = "What each rank sends while all of them do.",
         .unit = kRate,
         .min = 0,
         .above_min = true,
         .required = true});
}

void declare(Fields& f, NodeProfile& s) {
  f.add("ranks", s.ranks,
        {.doc = "Up to so many ranks of a node at work. Of several profiles the one for the fewest ranks that are "
                "enough is used.",
         .unit = "ranks",
         .min = 1,
         .max = 4096});
  f.add("threads", s.threads, {.doc = "Threads of a rank, on CPUs.", .min = 0, .max = 4096});
  f.add("peak_tflops_bf16", s.peak_tflops_bf16,
        {.doc = "What a rank's MFU is relative to in bf16.", .unit = kTflops, .min = 0});
  f.add("peak_tflops_fp32", s.peak_tflops_fp32, {.doc = "The same in fp32.", .unit = kTflops, .min = 0});
  f.add("products", s.products, {.doc = "Matrix products: the three of a linear layer, in one compute type or both."});
  f.add("ops", s.ops, {.doc = "All other ops. Those without a line cost what `other` says, without that nothing."});
  f.add("links", s.links, {.doc = "What ranks send to each other."});
}

void declare(Fields& f, ClusterSpec& s) {
  f.add("name", s.name, {.doc = "Names it in messages and tables.", .required = true});
  f.add("source", s.source, {.doc = "Where the figures are from: measured, with what and when, or a data sheet."});
  f.add("device", s.device, {.doc = "What computes.", .choices = {"cuda", "cpu"}, .required = true});
  f.add("nodes", s.nodes, {.doc = "How many there are. 0: any number.", .min = 0, .max = kMaxNodes});
  f.add("ranks_per_node", s.ranks_per_node,
        {.doc = "The most. Runs fill node after node.", .unit = "ranks", .min = 1, .max = 4096});
  f.add("memory_gib", s.memory_gib,
        {.doc = "Memory of a device; of CPUs that of a node, for all of its ranks.",
         .unit = kGib,
         .min = 0,
         .above_min = true,
         .required = true});
  f.add(
      "reserved_gib", s.reserved_gib,
      {.doc = "Of it, what is taken before a run allocates anything: a rank's context, other programs. What libraries "
              "take later is part of each plan (docs/memory.md).",
       .unit = kGib,
       .min = 0});
  f.add("host_memory_gib", s.host_memory_gib, {.doc = "Host memory of a node.", .unit = kGib, .min = 0});
  f.add("overlaps", s.overlaps,
        {.doc = "Communication goes on while a rank computes. false: a rank that communicates does nothing else."});
  f.add("copy_gb_per_s", s.copy_gb_per_s,
        {.doc = "Copying within a device, read plus written.", .unit = kRate, .min = 0});
  f.add("host_gb_per_s", s.host_gb_per_s, {.doc = "Between a device and its host, each way.", .unit = kRate, .min = 0});
  f.add("disk_gb_per_s", s.disk_gb_per_s, {.doc = "Written to disk by a node.", .unit = kRate, .min = 0});
  f.add("profiles", s.profiles, {.doc = "What ranks achieve, by how many of a node work at a time; ascending."});
}

}  // namespace fp
