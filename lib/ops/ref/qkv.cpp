#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {
namespace {

using ref::Values;

// Copies head vectors between the fused columns and the tensors q, k, v, and rotates q and k.
class HeadMover {
 public:
  HeadMover(const HeadLayout& layout, const Rope& rope, const Tensor& positions, std::string_view op)
      : layout_(layout) {
    if (!rope.cos) return;
    cos_ = ref::load(rope.cos);
    sin_ = ref::load(rope.sin);
    positions_ = ref::load_ids(op, "positions", positions, 0, rope.cos.rows());
  }

  // Calls visit(offset in fused, offset in its own tensor, which: 0 q, 1 k, 2 v) for each head of each token.
  template <class Visit>
  void for_each_head(int64_t tokens, Visit&& visit) const {
    const int64_t d = layout_.head_dim;
    for (int64_t m = 0; m < tokens; ++m) {
      for (int64_t j = 0; j < layout_.heads; ++j)
        visit(m, m * layout_.columns() + layout_.q_column(j), (m * layout_.heads + j) * d, 0);
      for (int64_t j = 0; j < layout_.kv_heads; ++j) {
        visit(m, m * layout_.columns() + layout_.k_column(j), (m * layout_.kv_heads + j) * d, 1);
        visit(m, m * layout_.columns() + layout_.v_column(j), (m * layout_.kv_heads + j) * d, 2);
      }
    }
  }

  // to = rotation of from by the token's position; direction -1 undoes the rotation (its transpose).
  void move(double* to, const double* from, int64_t token, bool rotate, double direction) const {
    const int64_t d = layout_.head_dim, half = d / 2;
    if (!rotate || cos_.empty()) {
      std::copy(from, from + d, to);
      return;
    }
    for (int64_t i = 0; i < half; ++i) {
      const int64_t at = positions_[token] * half + i;
      const double c = cos_[at], s = direction * sin_[at], low = from[i], high = from[i + half];
      to[i] = low * c - high * s;
      to[i + half] = high * c + low * s;
    }
  }

 private:
  HeadLayout layout_;
  Values cos_, sin_;
  std::vector<int64_t> positions_;
};

}  // namespace

void RefOps::run(const calls::SplitQkv& call) {
  const HeadMover mover(call.layout, call.rope, call.positions, op_name(call));
  const Values fused = ref::load(call.qkv);
  Values parts[3] = {Values(static_cast<size_t>(call.q.elements())), Values(static_cast<size_t>(call.k.elements())),
                     Values(static_cast<size_t>(call.v.elements()))};
  mover.for_each_head(call.qkv.rows(), [&](int64_t token, int64_t in_fused, int64_t in_part, int part) {
    mover.move(&parts[part][in_part], &fused[in_fused], token, part < 2, 1.0);
  });
  ref::store(call.q, parts[0]);
  ref::store(call.k, parts[1]);
  ref::store(call.v, parts[2]);
}

void RefOps::run(const calls::SplitQkvBackward& call) {
  const HeadMover mover(call.layout, call.rope, call.positions, op_name(call));
  const Values parts[3] = {ref::load(call.dq), ref::load(call.dk), ref::load(call.dv)};
  Values fused(static_cast<size_t>(call.dqkv.elements()));
  mover.for_each_head(call.dqkv.rows(), [&](int64_t token, int64_t in_fused, int64_t in_part, int part) {
    mover.move(&fused[in_fused], &parts[part][in_part], token, part < 2, -1.0);
  });
  ref::store(call.dqkv, fused);
}

}  // namespace fp
