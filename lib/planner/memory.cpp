#include "planner/memory.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/parallel.h"
#include "dryrun/dry_rig.h"
#include "dryrun/setup.h"
#include "dryrun/stage_memory.h"
#include "planner/costs.h"
#include "sharding/arrange.h"

namespace fp {
namespace {

// Bound on the gaps between an arena's tensors, as a fraction of the activations; more than was ever observed.
constexpr double kGaps = 0.5;

constexpr int64_t bytes_of(double gib) { return static_cast<int64_t>(gib * (int64_t{1} << 30)); }

}  // namespace

MemorySearch::MemorySearch(const RunSpec& spec, const PipelinePlan& plan, const Mesh& mesh, CountingOps& ops,
                           int dry_runs)
    : spec_(&spec), plan_(plan), mesh_(mesh), ops_(&ops), dry_runs_(dry_runs), roles_(spec, mesh) {
  std::vector<int> sizes = step_sizes(spec.train, mesh.dp());
  if (plan.placement.stages() == 1)
    for (int& n : sizes) n = std::min(n, 2);  // later micro-batches need the same memory as the second
  plan_.prepare(sizes);
  step_ = plan_.step(sizes.back());
}

const MemorySearch::Held& MemorySearch::held(int role) {
  const Coordinate at = mesh_.at(roles_.rank(role));
  const HeldParts parts = held_by(plan_.stages, plan_.placement, at.pp);
  const auto layers = std::count(parts.layers.begin(), parts.layers.end(), true);
  const auto [known, added] = held_.try_emplace({roles_.share(role), parts.embedding, parts.head, layers});
  Held& h = known->second;
  if (!added) return h;
  DryRig rig(*spec_, plan_, *ops_, mesh_, roles_.rank(role));
  const ParamTable& table = rig.model.table();
  h.states = static_cast<int64_t>(rig.arena.in_use());
  rig.executor.update(spec_->optimizer, 1e-3, 1, 1.0, mesh_.size() > 1);
  h.update = static_cast<int64_t>(rig.arena.most_in_use()) - h.states;
  h.staging = static_cast<int64_t>(staging_bytes(*spec_, table));
  h.offloaded = static_cast<int64_t>(rig.host_arena.in_use());
  h.host_update = static_cast<int64_t>(rig.host_arena.most_in_use()) - h.offloaded;
  const auto elements = [&](int unit) { return table.units()[static_cast<size_t>(unit)].elements; };
  for (size_t l = 0; l < parts.layers.size() && h.layer == 0; ++l)
    if (parts.layers[l]) h.layer = elements(table.layer_unit(static_cast<int64_t>(l)));
  if (parts.embedding)
    for (const int u : table.embedding_units()) h.embedding += elements(u);
  if (parts.head)
    for (const int u : table.head_units()) h.head += elements(u);
  return h;
}

const std::vector<StageBytes>& MemorySearch::stages(int role) {
  std::vector<StageBytes>& of_share = stages_[roles_.share(role)];
  if (of_share.empty()) of_share = measure_stages(*spec_, plan_, *ops_, mesh_, mesh_.at(roles_.rank(role)));
  return of_share;
}

int64_t MemorySearch::activations(int role) {
  std::vector<int64_t>& of_ranks = activations_[roles_.share(role)];
  if (of_ranks.empty()) of_ranks = peak_bytes(step_, plan_.lowering, stages(role));
  return of_ranks[static_cast<size_t>(mesh_.at(roles_.rank(role)).pp)];
}

int64_t MemorySearch::offloaded_activations(int role) {
  if (spec_->memory.offload.activations == Offload::none) return 0;
  std::vector<int64_t>& of_ranks = offloaded_activations_[roles_.share(role)];
  if (of_ranks.empty()) of_ranks = peak_offloaded_bytes(step_, plan_.lowering, stages(role));
  return of_ranks[static_cast<size_t>(mesh_.at(roles_.rank(role)).pp)];
}

// Bytes of weights that are gathered for use, and of fp32 gradients that are not kept.
int64_t MemorySearch::attached(int role) {
  const int pp = mesh_.at(roles_.rank(role)).pp;
  const Held& h = held(role);
  const auto elements = [&](int stage) {
    const StagePart& p = plan_.stages[static_cast<size_t>(stage)];
    return p.layers * h.layer + (p.embedding ? h.embedding : 0) + (p.head ? h.head : 0);
  };
  const int64_t unit = std::max({h.layer, h.embedding, h.head});
  const ModelOptions options = model_options(*spec_);
  int64_t bytes = 0;
  if (options.zero_stage == 3 || options.offload_weights) {
    std::vector<int64_t> stages;
    for (const int s : plan_.placement.stages_of(pp)) stages.push_back(elements(s));
    std::sort(stages.rbegin(), stages.rend());
    stages.resize(std::min<size_t>(stages.size(), static_cast<size_t>(plan_.lowering.resident)));
    const int64_t whole = std::accumulate(stages.begin(), stages.end(), int64_t{0});
    bytes += size_of(options.compute) * (plan_.placement.stages() > 1 ? whole : std::min(whole, unit + h.layer));
  }
  if (options.zero_stage < 2 && options.gradients == DType::f32 && !options.offload_weights) return bytes;
  // If the reduction does not follow at once, all gradients of the stage wait for it.
  std::set<int> waiting;
  const std::vector<Action>& actions = step_.ranks[static_cast<size_t>(pp)];
  for (size_t i = 0; i < actions.size() && !spec_->breadth_first(); ++i)
    if (completes_gradient(actions[i].kind) && (i + 1 == actions.size() || actions[i + 1].kind != ActionKind::reduce ||
                                                actions[i + 1].stage != actions[i].stage))
      waiting.insert(actions[i].stage);
  // Otherwise those of one unit are reduced while the next are computed, which may be the same unit again; gradients
  // kept in bf16 are widened for the addition.
  int64_t gradients = (options.gradients == DType::f32 ? 2 : 3) * unit;
  if (spec_->breadth_first()) gradients += unit + h.embedding;  // on their way to the host, or shared with the LM head
  for (const int s : waiting) gradients += elements(s);
  return bytes + gradients * size_of(DType::f32);
}

int64_t MemorySearch::offloaded(int role) {
  // The bound by the schedule leaves out what waits between the stages of a rank.
  if (known_exactly(role) || spec_->breadth_first()) return static_cast<int64_t>(exact(role).offloaded_bytes);
  return held(role).offloaded + std::max(offloaded_activations(role), held(role).host_update);
}

bool MemorySearch::counts_host() const { return !ops_->device_memory() && !spec_->memory.has_budget(); }

int64_t MemorySearch::required(const Prediction& p) const {
  return static_cast<int64_t>(counts_host() ? p.required_bytes() : p.budgeted_device_bytes());
}

int64_t MemorySearch::estimate(int role) {
  const Held& h = held(role);
  return h.states + std::max(activations(role) + attached(role), h.update) +
         (counts_host() ? h.staging + offloaded(role) : 0);
}

const Prediction& MemorySearch::exact(int role) {
  const auto known = exact_.find(role);
  if (known != exact_.end()) return known->second;
  return exact_.emplace(role, dry_run(*spec_, plan_, *ops_, mesh_, roles_.rank(role))).first->second;
}

int MemorySearch::worst() {
  std::vector<int> order(static_cast<size_t>(roles_.count()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return estimate(a) > estimate(b); });
  int most = order.front();
  double beside = 0;  // bytes for sums of gradients outside the arena, by element of the largest unit
  int64_t scratch = 0;
  for (int i = 0; i < static_cast<int>(order.size()) && i < dry_runs_; ++i) {
    const int role = order[static_cast<size_t>(i)];
    const Held& h = held(role);
    const double gaps = kGaps * static_cast<double>(estimate(role) - h.states),
                 largest = static_cast<double>(std::max({h.layer, h.embedding, h.head}));
    if (i > 0 && static_cast<double>(estimate(role) + scratch) + gaps + beside * largest <=
                     static_cast<double>(required(exact(most))))
      break;
    const Prediction& p = exact(role);
    const int64_t own = counts_host() ? static_cast<int64_t>(p.own_bytes) : 0;
    scratch = std::max(scratch, own);
    beside = std::max(beside, static_cast<double>(required(p) - own - static_cast<int64_t>(p.arena_bytes)) / largest);
    if (required(p) > required(exact(most))) most = role;
  }
  return most;
}

void set_budget(RankMemory& m, const MemorySection& memory) {
  if (memory.device_gib > 0) m.device_budget = bytes_of(memory.device_gib);
  if (memory.host_gib > 0) m.host_budget = bytes_of(memory.host_gib);
}

int64_t usable_bytes(const ClusterSpec& cluster, double gib) { return bytes_of(gib * (1 - cluster.headroom)); }

std::unique_ptr<CountingOps> counting_ops_for(const ClusterSpec& cluster, const Ops* cpu) {
  if (cluster.device != ClusterDevice::cuda) return make_counting_ops(cpu);
  return make_counting_ops(nullptr, DeviceMemory{0, static_cast<size_t>(bytes_of(cluster.memory_gib))});
}

namespace {

// Host memory of the nodes, which ranks fill one after the other: all memory of ranks on CPUs; of ranks on GPUs the
// staging areas and what they offload.
class Nodes {
 public:
  Nodes(MemorySearch& search, const ClusterSpec& cluster, int ranks)
      : search_(search), on_host_(cluster.device != ClusterDevice::cuda), reserved_(bytes_of(cluster.reserved_gib)) {
    const int each = static_cast<int>(std::min<int64_t>(ranks, cluster.ranks_per_node));
    for (int first = 0; first < ranks; first += each) {
      std::map<int, int64_t> roles;
      for (int r = first; r < std::min(first + each, ranks); ++r) ++roles[search.roles().of(r)];
      if (std::find(kinds_.begin(), kinds_.end(), roles) == kinds_.end()) kinds_.push_back(roles);
    }
  }

  struct Most {
    int64_t bytes = 0, staging = 0, offloaded = 0;
  };
  // Returns the memory of the node that needs most; on CPUs from dry runs of all roles on it.
  Most most() {
    for (;;) {
      const auto fullest = std::max_element(kinds_.begin(), kinds_.end(),
                                            [&](const auto& a, const auto& b) { return bytes(a) < bytes(b); });
      bool known = true;
      if (!on_host_) return parts(*fullest);
      for (const auto& [role, n] : *fullest) {
        known = known && search_.known_exactly(role);
        search_.exact(role);
      }
      if (known) return parts(*fullest);
    }
  }

  // Returns the memory of the node that needs most for staging areas and offloaded tensors.
  Most most_of_host() const {
    const auto host = [&](const auto& node) { return parts(node).staging + parts(node).offloaded; };
    return parts(*std::ranges::max_element(kinds_, {}, host));
  }

 private:
  using Node = std::map<int, int64_t>;  // ranks by role
  int64_t bytes(const Node& node) const {
    int64_t sum = 0;
    for (const auto& [role, n] : node)
      sum += n * (on_host_ ? reserved_ + of_rank(role) : search_.staging(role) + search_.offloaded(role));
    return sum;
  }
  Most parts(const Node& node) const {
    Most most{bytes(node)};
    for (const auto& [role, n] : node) {
      most.staging += n * search_.staging(role);
      most.offloaded += n * search_.offloaded(role);
    }
    return most;
  }
  int64_t of_rank(int role) const {
    if (search_.known_exactly(role)) return static_cast<int64_t>(search_.exact(role).device_bytes());
    return search_.estimate(role) + (search_.counts_host() ? 0 : search_.staging(role) + search_.offloaded(role));
  }

  MemorySearch& search_;
  bool on_host_;
  int64_t reserved_;
  std::vector<Node> kinds_;
};

}  // namespace

RankMemory worst_rank_memory(const RunSpec& asked, int ranks, const ClusterSpec& cluster, CountingOps& ops,
                             int dry_runs) {
  RunSpec spec = asked;
  const Mesh mesh = arrange(spec, ranks);
  const NodeProfile* const profile = profile_for(cluster, std::min<int64_t>(ranks, cluster.ranks_per_node));
  const ScopedThreads threads(profile != nullptr && profile->threads > 0 ? static_cast<int>(profile->threads)
                                                                         : max_threads());
  MemorySearch search(spec, plan_pipeline(spec), mesh, ops, dry_runs);
  const int role = search.worst();
  RankMemory m;
  m.rank = search.roles().rank(role);
  m.prediction = search.exact(role);
  m.bytes = bytes_of(cluster.reserved_gib) + static_cast<int64_t>(m.prediction.required_bytes());
  m.device_bytes = static_cast<int64_t>(m.prediction.budgeted_device_bytes());
  m.available = usable_bytes(cluster, cluster.memory_gib);
  m.headroom = bytes_of(cluster.memory_gib) - m.available;
  set_budget(m, spec.memory);
  const bool on_gpu = cluster.device == ClusterDevice::cuda;
  if (on_gpu) m.device_bytes = m.bytes;
  if (on_gpu && !saves_in_background(spec) && m.prediction.offloaded_bytes == 0) return m;
  Nodes nodes(search, cluster, mesh.size());
  const Nodes::Most node = nodes.most(), host = spec.memory.has_budget() ? nodes.most_of_host() : node;
  m.node_staging = host.staging;
  m.node_offloaded = host.offloaded;
  if (on_gpu && cluster.host_memory_gib == 0) return m;  // not known
  m.node_bytes = node.bytes;
  m.node_available = on_gpu ? usable_bytes(cluster, cluster.host_memory_gib) : m.available;
  return m;
}

}  // namespace fp
