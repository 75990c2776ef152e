// Softmax statistics and the gradient of the cross entropy over rows of logits, each in one pass over memory. A row is
// processed in pieces that fit the first-level cache, as f32 scores with excluded columns at -infinity.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/math.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int64_t kPiece = 2048;
constexpr float kNone = -__builtin_inff();

// scores[i] = scale * logits[first + i]; returns their maximum.
template <class T>
FP_INLINE float load_piece(float* scores, const T* logits, int64_t first, int64_t count, const LossArgs& a) {
  columns(count, [&](int64_t c, auto w) { store(scores + c, load(logits + first + c, w) * a.logit_scale, w); });
  for (int64_t i = 0; i < a.masked_count; ++i) {
    const int64_t c = a.masked[i] - a.first_id - first;
    if (c >= 0 && c < count) scores[c] = kNone;
  }
  for (int64_t c = count; c % kLanes != 0; ++c) scores[c] = kNone;
  Vf top = splat(kNone);
  for (int64_t c = 0; c < count; c += kLanes) top = max(top, load(scores + c));
  return max_lane(top);
}

template <class T>
FP_INLINE void stats_row(const LossArgs& a, int64_t r) {
  const T* logits = static_cast<const T*>(a.logits) + r * a.cols;
  alignas(64) float scores[kPiece];
  float top = kNone, total = 0, target = kNone;
  for (int64_t first = 0; first < a.live; first += kPiece) {
    const int64_t count = smaller(kPiece, a.live - first);
    const float piece_top = load_piece(scores, logits, first, count, a);
    const int64_t t = a.targets[r] - a.first_id - first;
    if (a.targets[r] >= 0 && t >= 0 && t < count) target = scores[t];
    if (piece_top > top) {
      total *= exp(splat(top - piece_top))[0];
      top = piece_top;
    }
    // With no valid score so far, or only NaN, the base is 0; a NaN shows in the sum.
    const float base = top == kNone ? 0.0f : top;
    Vf s0{}, s1{};
    for (int64_t c = 0; c < count; c += 2 * kLanes) {
      s0 += exp(load(scores + c) - base);
      if (c + kLanes < count) s1 += exp(load(scores + c + kLanes) - base);
    }
    total += sum(s0 + s1);
  }
  a.stats[3 * r] = top;
  a.stats[3 * r + 1] = total;
  a.stats[3 * r + 2] = target;
}

template <class T>
FP_INLINE void gradient_row(const LossArgs& a, int64_t r) {
  T* logits = static_cast<T*>(a.logits) + r * a.cols;
  const int64_t target = a.targets[r] < 0 ? -1 : a.targets[r] - a.first_id;
  const float lse = a.loss[2 * r + 1];
  if (a.targets[r] < 0) {
    memset(static_cast<void*>(logits), 0, static_cast<size_t>(a.cols) * sizeof(T));
    return;
  }
  const float unit = a.scale * a.logit_scale, factor = unit * (1.0f + 2.0f * a.z_loss * lse);
  const bool here = target >= 0 && target < a.live;
  float at_target = here ? static_cast<float>(logits[target]) : 0.0f;
  columns(a.live,
          [&](int64_t c, auto w) { store(logits + c, exp(load(logits + c, w) * a.logit_scale - lse) * factor, w); });
  if (here) {
    at_target = exp(splat(at_target * a.logit_scale - lse))[0] * factor - unit;
    store(logits + target, splat(at_target), Part{1});
  }
  for (int64_t i = 0; i < a.masked_count; ++i) {
    const int64_t c = a.masked[i] - a.first_id;
    if (c >= 0 && c < a.live) store(logits + c, Vf{}, Part{1});
  }
  memset(static_cast<void*>(logits + a.live), 0, static_cast<size_t>(a.cols - a.live) * sizeof(T));
}

}  // namespace

void softmax_stats(const LossArgs& a) {
  with_type(a.bf16, [&](auto t) {
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) stats_row<decltype(t)>(a, r);
    });
  });
}

void cross_entropy_backward(const LossArgs& a) {
  with_type(a.bf16, [&](auto t) {
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) gradient_row<decltype(t)>(a, r);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
