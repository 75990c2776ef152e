// Cluster description: the memory and the rates of a cluster's ranks, from which the planner predicts step times.
// Measured by `fptrain bench all --write-cluster FILE`, or taken from data sheets (configs/clusters/).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"

namespace fp {

// Rate of one of the three matrix products of a linear layer, of size `tokens` x `outputs` x `inputs`:
//   seconds = overhead_us 1e-6 + flops / (tflops 1e12) (1 + half_tokens / tokens + half_outputs / outputs + half_inputs
//   / inputs)
struct ProductRates {
  std::string op = "linear";  // linear | linear_backward_input | linear_backward_weight
  std::string compute = "bf16";
  double tflops = 0;                                          // rate of a product that is large in every dimension
  double half_tokens = 0, half_outputs = 0, half_inputs = 0;  // sizes at which the rate is half of that
  double overhead_us = 0;

  bool operator==(const ProductRates&) const = default;
};

// Rate of any other op: seconds = overhead_us 1e-6 + bytes / (gb_per_s 1e9) + flops / (tflops 1e12) + scores /
// (gscores_per_s 1e9). Bytes, FLOPs and scores are those that the counting backend reports (ops/counting.h).
struct OpRates {
  std::string op;       // name in ops/counting.h; other: every op that is not in the list
  std::string compute;  // bf16 | fp32; empty: both
  double gb_per_s = 0;  // 0: bytes cost nothing
  double tflops = 0;    // 0: flops cost nothing
  double overhead_us = 0;
  double gscores_per_s = 0;  // 0: scores of attention cost nothing beside their FLOPs

  bool operator==(const OpRates&) const = default;
};

// Rate of communication: seconds = latency_us 1e-6 ceil(log2 ranks) + bytes sent by a rank / (gb_per_s 1e9), with all
// ranks sending at the same time. For messages and all_to_all each direction counts separately.
struct LinkRates {
  std::string between = "ranks";  // ranks: within a node; nodes: each rank's part of its node's bandwidth
  std::string kind = "any";  // all_reduce | all_gather | reduce_scatter | all_to_all | broadcast | send | host | any
  double latency_us = 0;
  double gb_per_s = 0;

  bool operator==(const LinkRates&) const = default;
};

// Rates that apply while up to `ranks` ranks of a node work at the same time.
struct NodeProfile {
  int64_t ranks = 1;                                  // maximum number of working ranks
  int64_t threads = 0;                                // threads per rank on CPUs; unused on GPUs
  double peak_tflops_bf16 = 0, peak_tflops_fp32 = 0;  // per rank; the peak that MFU refers to
  std::vector<ProductRates> products;
  std::vector<OpRates> ops;
  std::vector<LinkRates> links;

  bool operator==(const NodeProfile&) const = default;
};

enum class ClusterDevice { cuda, cpu };
EnumNames names_of(ClusterDevice);

struct ClusterSpec {
  std::string name;
  std::string source;  // origin of the figures
  ClusterDevice device = ClusterDevice::cuda;
  int64_t nodes = 0;           // 0: any number
  int64_t ranks_per_node = 8;  // maximum
  double memory_gib = 0;       // per device; for cpu: per node, shared by all of its ranks
  double reserved_gib = 0;     // part of memory_gib taken before a run allocates: contexts, other programs
  double host_memory_gib = 0;  // per node
  double headroom = 0.05;      // fraction of memory_gib and host_memory_gib that plans leave free
  bool overlaps = true;        // communication proceeds while a rank computes
  double slower_beside_communication = 0.08;  // fraction by which matrix products take longer during communication
  double copy_gb_per_s = 0;                   // within a device, read plus written
  double host_gb_per_s = 0;                   // between a device and its host, in each direction while both are in use
  double host_update_gb_per_s = 0;  // read plus written by one rank's part of the host's cores in an optimizer update
  double disk_gb_per_s = 0;         // write rate per node
  std::vector<NodeProfile> profiles;

  bool operator==(const ClusterSpec&) const = default;
};

// Reads and checks a file. Throws ConfigError that lists all of its mistakes.
ClusterSpec load_cluster(const std::filesystem::path&);
// As load_cluster, from text; error messages use `name` in place of the file.
ClusterSpec parse_cluster(std::string_view text, const std::string& name);
// Returns YAML with every key, which parses to an equal value.
std::string dump(const ClusterSpec&);
// Throws ConfigError with the key, its value and the legal values.
void validate(const ClusterSpec&);

}  // namespace fp
