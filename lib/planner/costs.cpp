#include "planner/costs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "base/error.h"

namespace fp {
namespace {

// Returns the sum of the `count` largest pieces; of the last one, a part if `count` is no whole number.
double largest_pieces(std::vector<int64_t> pieces, double count) {
  std::ranges::sort(pieces, std::greater());
  double sum = 0;
  for (size_t i = 0; i < pieces.size() && count > 0; ++i, count -= 1)
    sum += static_cast<double>(pieces[i]) * std::min(count, 1.0);
  return sum;
}

}  // namespace

const NodeProfile* profile_for(const ClusterSpec& cluster, int64_t ranks) {
  const NodeProfile* best = nullptr;
  for (const NodeProfile& p : cluster.profiles)
    if (p.ranks >= ranks && (best == nullptr || p.ranks < best->ranks)) best = &p;
  return best;
}

CostModel::CostModel(const ClusterSpec& cluster, int ranks)
    : cluster_(&cluster), ranks_per_node_(static_cast<int>(std::min<int64_t>(ranks, cluster.ranks_per_node))) {
  if (cluster.nodes > 0 && ranks > cluster.nodes * cluster.ranks_per_node)
    throw ConfigError(fmt::format("the cluster {} has {} node{} of {} ranks: {} ranks at most, not {}", cluster.name,
                                  cluster.nodes, cluster.nodes == 1 ? "" : "s", cluster.ranks_per_node,
                                  cluster.nodes * cluster.ranks_per_node, ranks));
  nodes_ = NodeMap(ranks, ranks_per_node_);
  profile_ = profile_for(cluster, ranks_per_node_);
  if (profile_ != nullptr) return;
  std::string known;
  for (const NodeProfile& p : cluster.profiles) known += fmt::format("{}{}", known.empty() ? "" : ", ", p.ranks);
  throw ConfigError(
      fmt::format("the cluster {} has no profile of {} ranks on a node (profiles for: {}); measure one with mpirun "
                  "-np {} fptrain bench all --write-cluster FILE",
                  cluster.name, ranks_per_node_, known, ranks_per_node_));
}

const ProductRates& CostModel::product(const OpWork& work) const {
  for (const ProductRates& p : profile_->products)
    if (p.op == work.op && p.compute == compute_name(work.dtype)) return p;
  throw ConfigError(fmt::format("the cluster {} has no rates of {} in {} (profiles[].products)", cluster_->name,
                                work.op, compute_name(work.dtype)));
}

const OpRates* CostModel::rates(std::string_view op, DType dtype) const {
  const OpRates* any = nullptr;
  for (const OpRates& r : profile_->ops) {
    if (r.op != op || (!r.compute.empty() && r.compute != compute_name(dtype))) continue;
    if (!r.compute.empty()) return &r;
    any = &r;
  }
  return any;
}

double CostModel::op_seconds(const OpWork& work) const {
  if (work.m > 0) {
    const ProductRates& p = product(work);
    const auto part = [](double half, int64_t size) { return half / static_cast<double>(size); };
    return p.overhead_us * 1e-6 +
           work.flops / (p.tflops * 1e12) *
               (1 + part(p.half_tokens, work.m) + part(p.half_outputs, work.n) + part(p.half_inputs, work.k));
  }
  const OpRates* r = rates(work.op, work.dtype);
  if (r == nullptr) r = rates("other", work.dtype);
  if (r == nullptr) return 0;
  return r->overhead_us * 1e-6 + (r->gb_per_s > 0 ? work.bytes / (r->gb_per_s * 1e9) : 0) +
         (r->tflops > 0 ? work.flops / (r->tflops * 1e12) : 0) +
         (r->gscores_per_s > 0 ? work.scores / (r->gscores_per_s * 1e9) : 0);
}

const LinkRates& CostModel::link(std::string_view between, CommKind kind) const {
  const LinkRates* any = nullptr;
  for (const LinkRates& l : profile_->links) {
    if (l.between != between) continue;
    if (l.kind == name_of(kind)) return l;
    if (l.kind == "any") any = &l;
  }
  if (any != nullptr) return *any;
  throw ConfigError(fmt::format("the cluster {} has no rates of {} between {} (profiles[].links)", cluster_->name,
                                name_of(kind), between));
}

double CostModel::comm_seconds(CommKind kind, std::span<const int> ranks, int64_t sent,
                               const UnevenPieces& pieces) const {
  if (ranks.size() < 2) return 0;
  std::set<int> nodes;
  for (const int r : ranks) nodes.insert(nodes_.node_of(r));
  const auto seconds = [&](const LinkRates& l, double bytes, double speed) {
    const auto steps = static_cast<double>(std::bit_width(ranks.size() - 1));
    return l.latency_us * 1e-6 * steps + bytes / (l.gb_per_s * 1e9 * speed);
  };
  const auto bytes = static_cast<double>(sent);
  if (nodes.size() == 1) return seconds(link("ranks", kind), bytes, 1);
  const double own = static_cast<double>(ranks.size()) / static_cast<double>(nodes.size());  // ranks per node
  if (kind == CommKind::all_to_all) {  // bytes that stay on the node do not count
    const double others = static_cast<double>(ranks.size()) - own;
    const double leaves = pieces.sends.empty()
                              ? bytes * others / static_cast<double>(ranks.size() - 1)
                              : std::max(largest_pieces(pieces.sends, others), largest_pieces(pieces.recvs, others));
    return seconds(link("nodes", kind), leaves, 1);
  }
  // A ring leaves each node once and can use the link shares of all the group's ranks there, but is limited by the rate
  // within the node.
  const double ring = seconds(link("nodes", kind), bytes, kind == CommKind::send ? 1 : own);
  if (own < 2 || kind == CommKind::host) return ring;
  return std::max(ring, seconds(link("ranks", kind), bytes, 1));
}

double CostModel::copy_seconds(int64_t bytes) const {
  if (cluster_->host_gb_per_s <= 0)
    throw ConfigError(
        fmt::format("the cluster {} has no rate of copies between a device and its host (host_gb_per_s), which "
                    "memory.offload needs",
                    cluster_->name));
  return static_cast<double>(bytes) / (cluster_->host_gb_per_s * 1e9);
}

double CostModel::host_op_seconds(const OpWork& work) const {
  if (cluster_->host_update_gb_per_s <= 0)
    throw ConfigError(
        fmt::format("the cluster {} has no rate of updates by the host's cores (host_update_gb_per_s), which "
                    "memory.offload.device_share below 1 needs",
                    cluster_->name));
  return work.bytes / (cluster_->host_update_gb_per_s * 1e9);
}

double CostModel::peak_flops(DType compute) const {
  return (compute == DType::bf16 ? profile_->peak_tflops_bf16 : profile_->peak_tflops_fp32) * 1e12;
}

}  // namespace fp
