#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {
namespace {

using ref::Values;

// Rotates head vectors by the positions of their tokens; does nothing without tables.
class Rotation {
 public:
  Rotation(const Rope& rope, const Tensor& positions, std::string_view op) {
    if (!rope.cos) return;
    cos_ = ref::load(rope.cos);
    sin_ = ref::load(rope.sin);
    positions_ = ref::load_ids(op, "positions", positions, 0, rope.cos.rows());
  }

  // Rotates `x` of d elements; direction -1 undoes the rotation (its transpose).
  void rotate(double* x, int64_t d, int64_t token, double direction) const {
    const int64_t half = d / 2;
    if (cos_.empty()) return;
    for (int64_t i = 0; i < half; ++i) {
      const int64_t at = positions_[token] * half + i;
      const double c = cos_[at], s = direction * sin_[at], low = x[i], high = x[i + half];
      x[i] = low * c - high * s;
      x[i + half] = high * c + low * s;
    }
  }

 private:
  Values cos_, sin_;
  std::vector<int64_t> positions_;
};

// Calls visit(token, offset in fused, offset in its own tensor, which: 0 q, 1 k, 2 v) for each head of each token.
template <class Visit>
void for_each_head(const HeadLayout& layout, int64_t tokens, Visit&& visit) {
  const int64_t d = layout.head_dim;
  for (int64_t m = 0; m < tokens; ++m) {
    for (int64_t j = 0; j < layout.heads; ++j)
      visit(m, m * layout.columns() + layout.q_column(j), (m * layout.heads + j) * d, 0);
    for (int64_t j = 0; j < layout.kv_heads; ++j) {
      visit(m, m * layout.columns() + layout.k_column(j), (m * layout.kv_heads + j) * d, 1);
      visit(m, m * layout.columns() + layout.v_column(j), (m * layout.kv_heads + j) * d, 2);
    }
  }
}

// Copies a head, and rotates it unless it is one of v.
void move(double* to, const double* from, int64_t d, int part, const Rotation& rotation, int64_t token,
          double direction) {
  std::copy(from, from + d, to);
  if (part < 2) rotation.rotate(to, d, token, direction);
}

}  // namespace

void RefOps::run(const calls::SplitQkv& call) {
  const Rotation rotation(call.rope, call.positions, op_name(call));
  const Values fused = ref::load(call.qkv);
  Values parts[3] = {Values(static_cast<size_t>(call.q.elements())), Values(static_cast<size_t>(call.k.elements())),
                     Values(static_cast<size_t>(call.v.elements()))};
  for_each_head(call.layout, call.qkv.rows(), [&](int64_t token, int64_t in_fused, int64_t in_part, int part) {
    move(&parts[part][in_part], &fused[in_fused], call.layout.head_dim, part, rotation, token, 1.0);
  });
  ref::store(call.q, parts[0]);
  ref::store(call.k, parts[1]);
  ref::store(call.v, parts[2]);
}

void RefOps::run(const calls::SplitQkvBackward& call) {
  const Rotation rotation(call.rope, call.positions, op_name(call));
  const Values parts[3] = {ref::load(call.dq), ref::load(call.dk), ref::load(call.dv)};
  Values fused(static_cast<size_t>(call.dqkv.elements()));
  for_each_head(call.layout, call.dqkv.rows(), [&](int64_t token, int64_t in_fused, int64_t in_part, int part) {
    move(&fused[in_fused], &parts[part][in_part], call.layout.head_dim, part, rotation, token, -1.0);
  });
  ref::store(call.dqkv, fused);
}

void RefOps::run(const calls::Rope& call) {
  const Rotation rotation(call.rope, call.positions, op_name(call));
  const int64_t d = call.x.cols(), heads = call.x.shape[1];
  Values X = ref::load(call.x);
  for (int64_t row = 0; row < call.x.rows(); ++row)
    rotation.rotate(&X[row * d], d, row / heads, call.back ? -1.0 : 1.0);
  ref::store(call.y, X);
}

}  // namespace fp
