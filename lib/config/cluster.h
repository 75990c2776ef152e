// A cluster as the planner sees it: what ranks on its nodes have and how fast they are. Measured by `fptrain bench all
// --write-cluster FILE`, or from data sheets (configs/clusters/).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// One of a linear layer's three products of `tokens` x `outputs` x `inputs` of the layer:
//   seconds = overhead_us 1e-6 + flops / (tflops 1e12) (1 + half_tokens / tokens + half_outputs / outputs + half_inputs
//   / inputs)
struct ProductRates {
  std::string op = "linear";  // linear | linear_backward_input | linear_backward_weight
  std::string compute = "bf16";
  double tflops = 0;                                          // of a product that is large in all directions
  double half_tokens = 0, half_outputs = 0, half_inputs = 0;  // where the rate is half of that
  double overhead_us = 0;

  bool operator==(const ProductRates&) const = default;
};

// Any other op: seconds = overhead_us 1e-6 + bytes / (gb_per_s 1e9) + flops / (tflops 1e12), as counted
// (ops/counting.h).
struct OpRates {
  std::string op;       // by its name there; other: all that are not in the list
  std::string compute;  // bf16 | fp32; empty: both
  double gb_per_s = 0;  // 0: bytes cost nothing
  double tflops = 0;    // 0: flops cost nothing
  double overhead_us = 0;

  bool operator==(const OpRates&) const = default;
};

// What ranks send: seconds = latency_us 1e-6 ceil(log2 ranks) + bytes sent by a rank / (gb_per_s 1e9), for all ranks at
// the same time. Of messages and all_to_all each way counts on its own.
struct LinkRates {
  std::string between = "ranks";  // ranks: of a node; nodes: each rank's share of what its node sends
  std::string kind = "any";  // all_reduce | all_gather | reduce_scatter | all_to_all | broadcast | send | host | any
  double latency_us = 0;
  double gb_per_s = 0;

  bool operator==(const LinkRates&) const = default;
};

// What holds while so many ranks of a node work at a time.
struct NodeProfile {
  int64_t ranks = 1;                                  // up to so many
  int64_t threads = 0;                                // of a rank on CPUs; not used otherwise
  double peak_tflops_bf16 = 0, peak_tflops_fp32 = 0;  // of a rank: what MFU is relative to
  std::vector<ProductRates> products;
  std::vector<OpRates> ops;
  std::vector<LinkRates> links;

  bool operator==(const NodeProfile&) const = default;
};

struct ClusterSpec {
  std::string name;
  std::string source;           // where the figures are from
  std::string device = "cuda";  // cuda | cpu
  int64_t nodes = 0;            // 0: any number
  int64_t ranks_per_node = 8;   // the most
  double memory_gib = 0;        // of a device; of cpu: of a node, for all of its ranks
  double reserved_gib = 0;     // of it, what is taken before a run allocates anything: a rank's context, other programs
  double host_memory_gib = 0;  // of a node
  bool overlaps = true;        // communication goes on while a rank computes
  double copy_gb_per_s = 0;    // within a device, read plus written
  double host_gb_per_s = 0;    // between a device and its host, each way
  double disk_gb_per_s = 0;    // written by a node
  std::vector<NodeProfile> profiles;

  bool operator==(const ClusterSpec&) const = default;
};

// ConfigError with all mistakes of the file.
ClusterSpec load_cluster(const std::filesystem::path&);
// The same from text; `name` stands for the file in messages.
ClusterSpec parse_cluster(std::string_view text, const std::string& name);
// YAML with every key; reads back to an equal value.
std::string dump(const ClusterSpec&);
// ConfigError with key, value and what would be legal.
void validate(const ClusterSpec&);

}  // namespace fp
