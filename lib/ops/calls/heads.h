// Calls that split a fused QKV projection into heads, and rotary position embedding.
#pragma once

#include "ops/calls/call.h"

namespace fp {

// Layout of the (H+2K)*d columns of a fused QKV projection: blocked [q of all heads | k | v], or grouped per kv head
// [q0..q(H/K-1), k, v] (phi-3-small).
struct HeadLayout {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool grouped = false;
  constexpr int64_t columns() const { return (heads + 2 * kv_heads) * head_dim; }
  constexpr int64_t q_column(int64_t head) const {
    const int64_t group = heads / kv_heads;
    return grouped ? (head / group * (group + 2) + head % group) * head_dim : head * head_dim;
  }
  constexpr int64_t k_column(int64_t kv) const {
    return grouped ? (kv * (heads / kv_heads + 2) + heads / kv_heads) * head_dim : (heads + kv) * head_dim;
  }
  constexpr int64_t v_column(int64_t kv) const {
    return grouped ? k_column(kv) + head_dim : (heads + kv_heads + kv) * head_dim;
  }
};

// Rotary position embedding: cos and sin, each [positions, d/2] f32, any attention factor already applied; halves (i,
// i+d/2) are rotated. Empty tensors: no rotation.
struct Rope {
  Tensor cos, sin;
};

namespace calls {

// qkv [M, layout.columns()] -> q [M,H,d], k [M,K,d], v [M,K,d], q and k rotated by `positions` (i32 [M]).
struct SplitQkv {
  Tensor q, k, v, qkv;
  HeadLayout layout;
  fp::Rope rope = {};
  Tensor positions = {};
};

struct SplitQkvBackward {
  Tensor dqkv, dq, dk, dv;
  HeadLayout layout;
  fp::Rope rope = {};
  Tensor positions = {};
};

// y = x [M,H,d] rotated by `positions` (i32 [M]), with the same bits as a split that rotates; y may alias x. Back: by
// the opposite angles, which is the backward pass. For what stands between the split and the rotation, such as a norm
// of the heads; otherwise the split rotates, and the heads are moved once.
struct Rope {
  Tensor y, x;
  fp::Rope rope;
  Tensor positions;
  bool back = false;
};

}  // namespace calls
}  // namespace fp
