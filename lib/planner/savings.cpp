#include "planner/savings.h"

#include <algorithm>
#include <array>
#include <bit>

#include "config/open_keys.h"

namespace fp {
namespace {

constexpr std::array kRecompute = {Recompute::none, Recompute::selective, Recompute::full};  // by rising effort
constexpr int64_t kLargestChunk = 65536;  // unless there were too many
constexpr int64_t kSmallestChunk = 1024;
constexpr int64_t kMostChunks = 128;  // the number of visits grows with its square

size_t effort(Recompute recompute) {
  return static_cast<size_t>(std::find(kRecompute.begin(), kRecompute.end(), recompute) - kRecompute.begin());
}

// Tokens of the smallest chunk whose copies are hidden, a power of two.
int64_t least_chunk(const RunSpec& s, const ClusterSpec& cluster) {
  double flops = 0;
  for (const NodeProfile& p : cluster.profiles)
    flops = std::max(flops, 1e12 * (s.precision.compute == DType::bf16 ? p.peak_tflops_bf16 : p.peak_tflops_fp32));
  const double group = static_cast<double>(s.model.heads) / static_cast<double>(s.model.kv_heads);
  const double bytes = s.precision.compute == DType::bf16 ? 1.2 : 2.0;  // for each FLOP
  const double tokens = cluster.host_gb_per_s > 0 ? bytes * flops / (cluster.host_gb_per_s * 1e9) / group : 0;
  return std::max<int64_t>(kSmallestChunk, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens))));
}

std::vector<int64_t> chunks(const RunSpec& s, const ClusterSpec& cluster) {
  std::vector<int64_t> list;
  const int64_t fewest = (s.data.seq_len + kMostChunks - 1) / kMostChunks,
                largest = std::max(kLargestChunk, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(fewest))));
  for (int64_t c = largest; c >= std::max(fewest, least_chunk(s, cluster)); c /= 4)
    if (c <= s.data.seq_len / 2) list.push_back(c);
  return list;
}

}  // namespace

std::vector<Plan> savings(const RunSpec& s, const Plan& from, const ClusterSpec& cluster) {
  std::vector<Plan> list = {from};
  const auto add = [&](const Plan& p) {
    if (uses_less_memory(p, list.back())) list.push_back(p);
  };
  Plan p = from;
  for (size_t r = effort(from.recompute); r < kRecompute.size() && is_open(s, "recompute"); ++r) {
    p.recompute = kRecompute[r];
    add(p);
  }
  const std::vector<Recompute>& stages = s.parallel.pipeline.recompute;
  const bool full = stages.empty() ? p.recompute == Recompute::full
                                   : std::ranges::all_of(stages, [](Recompute r) { return r == Recompute::full; });
  if (!full) return list;
  if (is_open(s, "mlp_tile_tokens") && p.mlp_tile_tokens == 0 && p.micro_batch * s.data.seq_len > s.model.hidden) {
    p.mlp_tile_tokens = s.model.hidden;  // the tile's products are about square
    add(p);
  }
  if (is_open(s, "offload.activations") && cluster.device == ClusterDevice::cuda && cluster.host_gb_per_s > 0) {
    p.activations = Offload::host;
    add(p);
  }
  for (const int64_t c : chunks(s, cluster)) {
    if (!is_open(s, "sequence_chunk_tokens")) break;
    p.sequence_chunk_tokens = c;
    add(p);
  }
  return list;
}

bool uses_less_memory(const Plan& b, const Plan& a) {
  Plan same = b;
  same.recompute = a.recompute;
  same.zero_stage = a.zero_stage;
  same.activations = a.activations;
  same.mlp_tile_tokens = a.mlp_tile_tokens;
  same.sequence_chunk_tokens = a.sequence_chunk_tokens;
  const auto no_more = [](int64_t part, int64_t than) {
    return part == than || than == 0 || (part > 0 && part < than);
  };
  const bool zero = b.zero_stage == a.zero_stage || (a.zero_stage >= 1 && b.zero_stage > a.zero_stage);
  return same == a && b != a && zero && effort(b.recompute) >= effort(a.recompute) && b.activations >= a.activations &&
         no_more(b.mlp_tile_tokens, a.mlp_tile_tokens) && no_more(b.sequence_chunk_tokens, a.sequence_chunk_tokens);
}

}  // namespace fp
