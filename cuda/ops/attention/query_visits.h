// The query tiles that a block which owns keys streams: tiles of Tile queries, for one query head of the keys' group
// after another.
#pragma once

#include "cuda/device/math.h"
#include "cuda/ops/attention/operands.h"

namespace fp::cuda {

template <int Tile>
class QueryVisits {
 public:
  template <class T>
  __device__ __forceinline__ QueryVisits(const Operands<T>& a, const KeyOwner& owner, int keys)
      : mask_(a.mask), sample_(owner.sample), group_(a.heads / a.kv_heads), first_head_(owner.kv_head * group_) {
    const HeadMask any(a.mask, sample_, first_head_);
    first_tile_ = any.first_query(owner.first) / Tile;
    tiles_ = (any.end_query(owner.first + keys - 1) + Tile - 1) / Tile - first_tile_;
    if (tiles_ < 0) tiles_ = 0;
  }
  __device__ int count() const { return group_ * tiles_; }
  __device__ int head(int visit) const { return first_head_ + visit / tiles_; }
  __device__ int query(int visit) const { return (first_tile_ + visit % tiles_) * Tile; }
  __device__ HeadMask mask(int visit) const { return {mask_, sample_, head(visit)}; }
  __device__ Visibility visibility(int visit, int key, int keys) const {
    const HeadMask m = mask(visit);
    return m.visibility(m.queries(query(visit), Tile), key, keys);
  }

 private:
  const Mask& mask_;
  int sample_, group_, first_head_, first_tile_, tiles_;
};

// Loads lse in base 2 and then delta of Count queries. Queries beyond the last get 0: with d_o = 0 they add nothing.
template <int Count, int Threads, class T>
__device__ __forceinline__ void load_row_values(float* to, const Operands<T>& a, int sample, int head, int first) {
  for (int i = static_cast<int>(threadIdx.x); i < 2 * Count; i += Threads) {
    const int query = first + i % Count;
    const int64_t at = a.at_row(sample, query, head);
    to[i] = query >= a.mask.queries ? 0.0f : i < Count ? base2(a.lse[at]) : a.delta[at];
  }
}

}  // namespace fp::cuda
