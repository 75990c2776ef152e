#include "planner/shard_time.h"

#include "dryrun/setup.h"
#include "model/groups.h"

namespace fp {
namespace {

// Bytes of an element with `bits` bits, with its part of the scale.
double quantized_bytes(const RunSpec& spec, int64_t bits) {
  return static_cast<double>(bits) / 8 + 4.0 / static_cast<double>(spec.communication.block);
}

// The ranks with shards of the same parameters that are on one node, and one rank of each node. Where sums do not go
// through nodes, every rank is one.
struct ByNodes {
  std::vector<int> in_node, across;
  bool several = false;  // of both
  bool through = false;  // gathers, and sums that are not quantized, go through nodes (exec/shard_exchange.h)
  double ranks() const { return static_cast<double>(in_node.size()); }
};

ByNodes by_nodes(const RunSpec& spec, const Mesh& mesh) {
  const CommunicationSection& c = spec.communication;
  std::vector<std::vector<int>> groups;
  if (c.by_nodes || c.gradient_bits > 0 || c.node_weights || c.weight_differences)
    groups = data_by_node(mesh, nodes_of(spec.parallel, mesh.size()), 0);
  ByNodes n;
  if (groups.empty()) {
    n = {{0}, mesh.data(0)};
  } else {
    n.in_node = groups.front();
    for (const std::vector<int>& g : groups) n.across.push_back(g.front());
  }
  n.several = n.across.size() > 1 && n.in_node.size() > 1;
  n.through = n.several && c.by_nodes;
  return n;
}

// Seconds of a collective in which each rank of a group sends all but its part of `bytes`.
double share_seconds(const CostModel& costs, CommKind kind, const std::vector<int>& group, double bytes) {
  const auto n = static_cast<double>(group.size());
  return costs.comm_seconds(kind, group, static_cast<int64_t>(bytes * (n - 1) / n));
}

// Seconds of a quantized sum to shards: within nodes, and between them.
double quantized_reduce_seconds(const RunSpec& spec, const CostModel& costs, const ByNodes& nodes, double parameters) {
  const CommunicationSection& c = spec.communication;
  const auto exchange = [&](const std::vector<int>& group, double elements, int64_t bits) {
    return share_seconds(costs, CommKind::all_to_all, group, elements * quantized_bytes(spec, bits));
  };
  const int64_t first = c.node_gradient_bits > 0 ? c.node_gradient_bits : c.gradient_bits;
  if (nodes.across.size() == 1) return exchange(nodes.in_node, parameters, first);
  if (nodes.in_node.size() == 1) return exchange(nodes.across, parameters, c.gradient_bits);
  return exchange(nodes.in_node, parameters, first) +
         exchange(nodes.across, parameters / nodes.ranks(), c.gradient_bits);
}

// Seconds in which shards of `bytes` in all reach one rank of each node that keeps them, or sums of a node the ranks
// whose shards they are. The busiest rank keeps shards of other nodes alone.
double spread_seconds(const CostModel& costs, const ByNodes& nodes, double bytes) {
  return costs.comm_seconds(CommKind::all_to_all, nodes.across, static_cast<int64_t>(bytes / nodes.ranks()));
}

// Seconds of a gather of shards that take `bytes` in all.
double gather_seconds(const CostModel& costs, const Mesh& mesh, const ByNodes& nodes, double bytes) {
  if (!nodes.through) return share_seconds(costs, CommKind::all_gather, mesh.data(0), bytes);
  return spread_seconds(costs, nodes, bytes) + share_seconds(costs, CommKind::all_gather, nodes.in_node, bytes);
}

}  // namespace

double reduce_seconds(const RunSpec& spec, const CostModel& costs, const Mesh& mesh, double parameters) {
  const double bytes = parameters * gradient_bytes(spec);
  if (spec.parallel.zero_stage == 0) return share_seconds(costs, CommKind::all_reduce, mesh.data(0), 2 * bytes);
  const ByNodes nodes = by_nodes(spec, mesh);
  if (spec.communication.gradient_bits > 0) return quantized_reduce_seconds(spec, costs, nodes, parameters);
  if (!nodes.through) return share_seconds(costs, CommKind::reduce_scatter, mesh.data(0), bytes);
  return share_seconds(costs, CommKind::reduce_scatter, nodes.in_node, bytes) + spread_seconds(costs, nodes, bytes);
}

double gathers_seconds(const RunSpec& spec, const CostModel& costs, const Mesh& mesh, double parameters, int gathers) {
  const CommunicationSection& c = spec.communication;
  const ByNodes nodes = by_nodes(spec, mesh);
  const double exact = parameters * weight_bytes(spec);
  const bool quantized = c.weight_bits > 0 && !c.weight_differences;
  const double first =
      gather_seconds(costs, mesh, nodes, quantized ? parameters * quantized_bytes(spec, c.weight_bits) : exact);
  if (!c.node_weights || !nodes.several) return gathers * first;
  const double later = share_seconds(costs, CommKind::all_gather, nodes.in_node, exact);
  return c.weight_differences ? gathers * later : first + (gathers - 1) * later;
}

double updated_weights_seconds(const RunSpec& spec, const CostModel& costs, const Mesh& mesh, double parameters) {
  const CommunicationSection& c = spec.communication;
  const int64_t zero = spec.parallel.zero_stage;
  const bool keeps_whole = (zero == 1 || zero == 2) && spec.memory.offload.weights == Offload::none;
  const ByNodes nodes = by_nodes(spec, mesh);
  const double bytes = parameters * (c.weight_differences ? quantized_bytes(spec, c.weight_bits) : weight_bytes(spec));
  if (keeps_whole) return gather_seconds(costs, mesh, nodes, bytes);
  return c.weight_differences && nodes.several ? spread_seconds(costs, nodes, bytes) : 0;
}

}  // namespace fp
