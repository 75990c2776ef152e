#include "config/cluster/cluster_fields.h"

#include "base/op_list.h"

namespace fp {

constexpr double kMaxNodes = 1 << 20;
constexpr double kMostMemoryGib = 1 << 20;
constexpr std::string_view kRate = "GB/s", kTflops = "TFLOP/s", kMicroseconds = "us", kGib = "GiB";

void declare(Fields& f, ProductRates& s) {
  f.add("op", s.op,
        {.doc = "Matrix product of a linear layer: forward pass, gradient of its inputs, or gradient of its weights.",
         .choices = {FP_PRODUCTS(FP_OP_NAME)},
         .required = true});
  f.add("compute", s.compute, {.doc = "Type of the activations.", .choices = {"bf16", "fp32"}, .required = true});
  f.add("tflops", s.tflops,
        {.doc = "Rate of a product that is large in every dimension. `seconds = overhead + flops / rate x (1 + "
                "half_tokens / tokens + half_outputs / outputs + half_inputs / inputs)`.",
         .unit = kTflops,
         .min = 0,
         .above_min = true,
         .required = true});
  const auto half = [&](std::string_view key, double& member, std::string_view doc) {
    f.add(key, member, {.doc = doc, .min = 0});
  };
  half("half_tokens", s.half_tokens,
       "Number of tokens at which a product that is large in the other dimensions runs at half the rate.");
  half("half_outputs", s.half_outputs, "As half_tokens, for the outputs of the layer.");
  half("half_inputs", s.half_inputs, "As half_tokens, for the inputs of the layer.");
  f.add("overhead_us", s.overhead_us, {.doc = "Fixed time of each call.", .unit = kMicroseconds, .min = 0});
}

void declare(Fields& f, OpRates& s) {
  f.add("op", s.op,
        {.doc = "Name of the op. `other`: all ops without an entry of their own. `seconds = overhead + bytes / "
                "gb_per_s + flops / tflops + scores / gscores_per_s`.",
         .choices = {FP_OTHER_OPS(FP_OP_NAME) "other"},
         .required = true});
  f.add("compute", s.compute,
        {.doc = "`bf16` or `fp32`: rates for tensors of this type. Empty: for both, unless there is an entry for the "
                "type."});
  f.add("gb_per_s", s.gb_per_s,
        {.doc = "Rate of bytes read and written, each operand counted once. 0: bytes cost nothing.",
         .unit = kRate,
         .min = 0});
  f.add("tflops", s.tflops, {.doc = "Rate of arithmetic. 0: FLOPs cost nothing.", .unit = kTflops, .min = 0});
  f.add("gscores_per_s", s.gscores_per_s,
        {.doc = "Rate of the scores of attention, one for a head, a query and a key that it sees: what their "
                "exponentials take whatever the head size. 0: they cost nothing beside their FLOPs.",
         .unit = "10^9/s",
         .min = 0});
  f.add("overhead_us", s.overhead_us, {.doc = "Fixed time of each call.", .unit = kMicroseconds, .min = 0});
}

void declare(Fields& f, LinkRates& s) {
  f.add("between", s.between,
        {.doc = "`ranks`: between ranks of a node. `nodes`: between nodes, each rank's part of its node's bandwidth.",
         .choices = {"ranks", "nodes"},
         .required = true});
  f.add("kind", s.kind,
        {.doc = "Kind of communication; `send` is a message between two ranks, `host` an exchange of host values "
                "(small control data). `any`: all kinds without an entry of their own.",
         .choices = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "host", "any"}});
  f.add("latency_us", s.latency_us,
        {.doc = "Latency between two ranks; between N ranks it is ceil(log2 N) times that. `seconds = latency + bytes "
                "that a rank sends / gb_per_s`. A rank sends N - 1 of N parts; an all_reduce sends each part twice.",
         .unit = kMicroseconds,
         .min = 0});
  f.add("gb_per_s", s.gb_per_s,
        {.doc = "Rate at which each rank sends while all of them send.",
         .unit = kRate,
         .min = 0,
         .above_min = true,
         .required = true});
}

void declare(Fields& f, NodeProfile& s) {
  f.add("ranks", s.ranks,
        {.doc = "Maximum number of working ranks of a node for which the profile applies. Of several that apply, the "
                "one with the fewest ranks is used.",
         .unit = "ranks",
         .min = 1,
         .max = 4096});
  f.add("threads", s.threads, {.doc = "Threads of a rank on CPUs.", .min = 0, .max = 4096});
  f.add("peak_tflops_bf16", s.peak_tflops_bf16,
        {.doc = "Peak rate of a rank in bf16, to which MFU is relative.", .unit = kTflops, .min = 0});
  f.add("peak_tflops_fp32", s.peak_tflops_fp32,
        {.doc = "Peak rate of a rank in fp32, to which MFU is relative.", .unit = kTflops, .min = 0});
  f.add("products", s.products,
        {.doc = "Rates of the three matrix products of a linear layer, in one compute type or both."});
  f.add("ops", s.ops,
        {.doc = "Rates of all other ops. Those without an entry take the rates of `other`; if there is none, they cost "
                "nothing."});
  f.add("links", s.links, {.doc = "Rates of communication between ranks."});
}

void declare(Fields& f, ClusterSpec& s) {
  f.add("name", s.name, {.doc = "Name of the cluster in messages and tables.", .required = true});
  f.add("source", s.source, {.doc = "Origin of the figures: how and when they were measured, or a data sheet."});
  f.add("device", s.device, {.doc = "Device that computes.", .required = true});
  f.add("nodes", s.nodes, {.doc = "Number of nodes. 0: any number.", .min = 0, .max = kMaxNodes});
  f.add("ranks_per_node", s.ranks_per_node,
        {.doc = "Maximum number of ranks of a node. Runs fill one node after another.",
         .unit = "ranks",
         .min = 1,
         .max = 4096});
  f.add("memory_gib", s.memory_gib,
        {.doc = "Memory of a device; for CPUs, memory of a node, shared by all of its ranks.",
         .unit = kGib,
         .min = 0,
         .max = kMostMemoryGib,
         .above_min = true,
         .required = true});
  f.add("reserved_gib", s.reserved_gib,
        {.doc = "Part of memory_gib that is taken before a run allocates anything: a rank's context, other programs. "
                "Memory that libraries take later is part of each plan (docs/memory.md).",
         .unit = kGib,
         .min = 0,
         .max = kMostMemoryGib});
  f.add("host_memory_gib", s.host_memory_gib,
        {.doc = "Host memory of a node.", .unit = kGib, .min = 0, .max = kMostMemoryGib});
  f.add("headroom", s.headroom,
        {.doc = "Fraction of memory_gib and host_memory_gib that plans leave free, for what cannot be predicted: "
                "fragmentation, and what libraries take beyond their part. `fptrain plan --headroom` overrides it.",
         .min = 0,
         .max = 1,
         .below_max = true});
  f.add("overlaps", s.overlaps,
        {.doc = "Communication overlaps with computation. false: a rank that communicates does nothing else."});
  f.add(
      "slower_beside_communication", s.slower_beside_communication,
      {.doc = "Fraction by which a matrix product takes longer while communication overlaps with it: the kernels that "
              "communicate occupy some of a GPU's multiprocessors. Unused without `overlaps`.",
       .min = 0,
       .max = 1});
  f.add("copy_gb_per_s", s.copy_gb_per_s,
        {.doc = "Rate of copies within a device, read plus written bytes.", .unit = kRate, .min = 0});
  f.add(
      "host_gb_per_s", s.host_gb_per_s,
      {.doc = "Rate of a rank's copies between its device and the host, in each direction, while both are in use; for "
              "plans with `memory.offload`.",
       .unit = kRate,
       .min = 0});
  f.add(
      "host_update_gb_per_s", s.host_update_gb_per_s,
      {.doc = "Rate at which a rank's part of the host's cores reads and writes state in an optimizer's update, while "
              "copies in both directions are in use; for plans with `memory.offload.device_share` below 1. Unused on "
              "CPUs, where these cores are the device.",
       .unit = kRate,
       .min = 0});
  f.add("disk_gb_per_s", s.disk_gb_per_s, {.doc = "Rate at which a node writes to disk.", .unit = kRate, .min = 0});
  f.add("profiles", s.profiles,
        {.doc = "Rates of ranks by the number of ranks of a node that work at the same time, in ascending order."});
}

}  // namespace fp
