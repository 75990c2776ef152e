#include "planner/savings.h"

#include <algorithm>
#include <array>
#include <bit>

#include "config/model_facts.h"
#include "config/open_keys.h"
#include "planner/device_share.h"

namespace fp {
namespace {

constexpr std::array kRecompute = {Recompute::none, Recompute::selective, Recompute::full};  // by rising effort
constexpr int64_t kLargestChunk = 65536;  // unless there were too many
constexpr int64_t kSmallestChunk = 1024;
constexpr int64_t kMostChunks = 128;  // the number of visits grows with its square
constexpr int64_t kSubgroups = 64;    // of a rank at least, so that their buffers are a small part of the state
constexpr int64_t kSmallestSubgroup = 1024;

size_t effort(Recompute recompute) {
  return static_cast<size_t>(std::find(kRecompute.begin(), kRecompute.end(), recompute) - kRecompute.begin());
}

}  // namespace

Savings::Savings(const RunSpec& spec, int ranks, const ClusterSpec& cluster)
    : spec_(&spec),
      cluster_(&cluster),
      offloads_(cluster.host_gb_per_s > 0 && (cluster.device == ClusterDevice::cuda || spec.memory.device_gib > 0)) {
  const bool offloads = open("offload.optimizer") ? offloads_ : spec.memory.offload.optimizer == Offload::host;
  if (!open("device_share") || !offloads || cluster.profiles.empty()) return;
  RunSpec s = spec;
  for (const Offload weights : {Offload::none, Offload::host}) {
    if (open("offload.weights")) s.memory.offload.weights = weights;
    device_share_[static_cast<size_t>(weights)] = best_device_share(s, CostModel(cluster, ranks));
  }
}

bool Savings::open(std::string_view key) const { return is_open(*spec_, key); }

// Tokens of the smallest chunk whose copies are hidden, a power of two.
int64_t Savings::least_chunk() const {
  const bool narrow = spec_->precision.compute == DType::bf16;
  double flops = 0;
  for (const NodeProfile& p : cluster_->profiles)
    flops = std::max(flops, 1e12 * (narrow ? p.peak_tflops_bf16 : p.peak_tflops_fp32));
  const double group = static_cast<double>(spec_->model.heads) / static_cast<double>(spec_->model.kv_heads);
  const double bytes = narrow ? 1.2 : 2.0;  // for each FLOP
  const double rate = cluster_->host_gb_per_s * 1e9, tokens = rate > 0 ? bytes * flops / rate / group : 0;
  return std::max<int64_t>(kSmallestChunk, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens))));
}

std::vector<int64_t> Savings::chunks() const {
  std::vector<int64_t> list;
  const int64_t length = spec_->data.seq_len, fewest = (length + kMostChunks - 1) / kMostChunks,
                largest = std::max(kLargestChunk, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(fewest))));
  for (int64_t c = largest; c >= std::max(fewest, least_chunk()); c /= 4)
    if (c <= length / 2) list.push_back(c);
  return list;
}

int64_t Savings::subgroup(const Plan& p) const {
  const int64_t sharers = p.zero_stage >= 1 ? std::max<int64_t>(p.data, 1) * p.sequence : 1,
                elements = parameter_count(spec_->model) / (p.tensor * p.pipeline * sharers);
  return std::clamp(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(elements / kSubgroups))),
                    kSmallestSubgroup, OffloadSection().subgroup);
}

// Sets how offloaded state is updated.
void Savings::divide_state(Plan& p) const {
  const bool host = p.optimizer == Offload::host;
  if (open("device_share")) p.device_share = host ? device_share_[static_cast<size_t>(p.weights)] : 1;
  if (open("subgroup")) p.subgroup = host ? subgroup(p) : Plan().subgroup;
}

Plan Savings::without(Plan p) const {
  const OffloadSection &written = spec_->memory.offload, unused;
  if (open("offload.activations")) p.activations = Offload::none;
  if (open("mlp_tile_tokens")) p.mlp_tile_tokens = 0;
  if (open("sequence_chunk_tokens")) p.sequence_chunk_tokens = 0;
  if (open("recompute")) p.recompute = p.activations == Offload::host ? Recompute::full : Recompute::none;
  if (open("offload.weights")) p.weights = Offload::none;
  if (open("offload.optimizer")) {  // without it, these written keys would not be legal
    const bool needed = p.weights == Offload::host ||
                        (!open("device_share") && written.device_share != unused.device_share) ||
                        (!open("subgroup") && written.subgroup != unused.subgroup);
    p.optimizer = needed ? Offload::host : Offload::none;
  }
  divide_state(p);
  return p;
}

std::vector<Plan> Savings::of_state(const Plan& from) const {
  std::vector<Plan> list = {from};
  if (open("offload.optimizer") && offloads_ && from.optimizer == Offload::none) {
    list.push_back(from);
    list.back().optimizer = Offload::host;
  }
  if (open("offload.weights") && offloads_ && from.weights == Offload::none && from.pipeline == 1 &&
      list.back().optimizer == Offload::host) {
    list.push_back(list.back());
    list.back().weights = Offload::host;
  }
  for (Plan& p : list) divide_state(p);
  return list;
}

std::vector<Plan> Savings::of_activations(const Plan& from) const {
  std::vector<Plan> list = {from};
  const auto add = [&](const Plan& p) {
    if (uses_less_memory(p, list.back())) list.push_back(p);
  };
  Plan p = from;
  for (size_t r = effort(from.recompute); r < kRecompute.size() && open("recompute"); ++r) {
    p.recompute = kRecompute[r];
    add(p);
  }
  const std::vector<Recompute>& stages = spec_->parallel.pipeline.recompute;
  const bool full = stages.empty() ? p.recompute == Recompute::full
                                   : std::ranges::all_of(stages, [](Recompute r) { return r == Recompute::full; });
  if (!full) return list;
  const int64_t hidden = spec_->model.hidden;
  if (open("mlp_tile_tokens") && p.mlp_tile_tokens == 0 && p.micro_batch * spec_->data.seq_len > hidden) {
    p.mlp_tile_tokens = hidden;  // the tile's products are about square
    add(p);
  }
  std::vector<Plan> places = {p};  // of the inputs of layers
  if (open("offload.activations") && offloads_ && p.activations == Offload::none) {
    places.push_back(p);
    places.back().activations = Offload::host;
  }
  for (const Plan& place : places) {
    if (place != p) list.push_back(place);
    for (const int64_t c : open("sequence_chunk_tokens") ? chunks() : std::vector<int64_t>()) {
      list.push_back(place);
      list.back().sequence_chunk_tokens = c;
    }
  }
  return list;
}

std::vector<Plan> Savings::of(const Plan& from) const {
  std::vector<Plan> list;
  for (const Plan& p : of_state(from)) {
    const std::vector<Plan> saving = of_activations(p);
    list.insert(list.end(), saving.begin(), saving.end());
  }
  return list;
}

bool uses_less_memory(const Plan& b, const Plan& a) {
  Plan same = b;
  same.recompute = a.recompute;
  same.zero_stage = a.zero_stage;
  same.node_weights = a.node_weights;
  same.activations = a.activations;
  same.mlp_tile_tokens = a.mlp_tile_tokens;
  same.sequence_chunk_tokens = a.sequence_chunk_tokens;
  if (b.optimizer > a.optimizer) {
    same.optimizer = a.optimizer;
    same.device_share = a.device_share;
    same.subgroup = a.subgroup;
  }
  const auto no_more = [](int64_t part, int64_t than) {
    return part == than || than == 0 || (part > 0 && part < than);
  };
  const bool zero = b.zero_stage == a.zero_stage ? b.node_weights <= a.node_weights
                                                 : a.zero_stage >= 1 && b.zero_stage > a.zero_stage;
  return same == a && b != a && zero && effort(b.recompute) >= effort(a.recompute) && b.activations >= a.activations &&
         no_more(b.mlp_tile_tokens, a.mlp_tile_tokens) && no_more(b.sequence_chunk_tokens, a.sequence_chunk_tokens);
}

}  // namespace fp
