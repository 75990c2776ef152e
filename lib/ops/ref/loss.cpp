#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {
namespace {

using ref::Values;

// Valid columns of a slice.
std::vector<bool> live_columns(int64_t columns, const Vocabulary& vocabulary) {
  std::vector<bool> live(static_cast<size_t>(columns), true);
  for (int64_t c = 0; c < columns; ++c) live[c] = vocabulary.first_id + c < vocabulary.valid_ids;
  if (!vocabulary.masked_ids) return live;
  for (int64_t i = 0; i < vocabulary.masked_ids.elements(); ++i) {
    const int64_t c = vocabulary.masked_ids.ptr<int32_t>()[i] - vocabulary.first_id;
    if (c >= 0 && c < columns) live[c] = false;
  }
  return live;
}

}  // namespace

void RefOps::run(const calls::SoftmaxStats& call) {
  const int64_t C = call.logits.rows(), V = call.logits.cols();
  const auto live = live_columns(V, call.vocabulary);
  Values L = ref::load(call.logits), S(static_cast<size_t>(3 * C));
  for (double& l : L) l *= call.vocabulary.logit_scale;
  for (int64_t r = 0; r < C; ++r) {
    double maximum = -ref::kInfinity, sum = 0.0;
    for (int64_t c = 0; c < V; ++c)
      if (live[c]) maximum = std::max(maximum, L[r * V + c]);
    maximum = ref::rounded(maximum, DType::f32);  // the sum belongs to the maximum as stored
    const double base = maximum == -ref::kInfinity ? 0.0 : maximum;
    for (int64_t c = 0; c < V; ++c)
      if (live[c]) sum += std::exp(L[r * V + c] - base);
    const int64_t target = call.targets.ptr<int32_t>()[r] - call.vocabulary.first_id;
    const bool here = call.targets.ptr<int32_t>()[r] >= 0 && target >= 0 && target < V && live[target];
    S[3 * r] = maximum;
    S[3 * r + 1] = sum;
    S[3 * r + 2] = here ? L[r * V + target] : -ref::kInfinity;
  }
  ref::store(call.stats, S);
}

void RefOps::run(const calls::SoftmaxStatsMerge& call) {
  const int64_t C = call.stats.rows(), P = call.parts.shape[0];
  const Values parts_of = ref::load(call.parts);
  const auto part = [&](int64_t p, int64_t r) { return &parts_of[static_cast<size_t>(3 * (p * C + r))]; };
  Values S(static_cast<size_t>(3 * C));
  for (int64_t r = 0; r < C; ++r) {
    double maximum = -ref::kInfinity, sum = 0.0, target = -ref::kInfinity;
    for (int64_t p = 0; p < P; ++p) {
      maximum = std::max(maximum, part(p, r)[0]);
      target = std::max(target, part(p, r)[2]);
    }
    const double base = maximum == -ref::kInfinity ? 0.0 : maximum;
    for (int64_t p = 0; p < P; ++p) sum += part(p, r)[1] * std::exp(part(p, r)[0] - base);
    S[3 * r] = maximum;
    S[3 * r + 1] = sum;
    S[3 * r + 2] = target;
  }
  ref::store(call.stats, S);
}

void RefOps::run(const calls::CrossEntropy& call) {
  const int64_t C = call.loss.rows();
  const Values S = ref::load(call.stats);
  Values L(static_cast<size_t>(2 * C));
  for (int64_t r = 0; r < C; ++r) {
    if (call.targets.ptr<int32_t>()[r] < 0) continue;
    const double lse = S[3 * r] + std::log(S[3 * r + 1]);
    L[2 * r] = lse - S[3 * r + 2];
    L[2 * r + 1] = lse;
  }
  ref::store(call.loss, L);
}

void RefOps::run(const calls::CrossEntropyBackward& call) {
  const int64_t C = call.logits.rows(), V = call.logits.cols();
  const auto live = live_columns(V, call.vocabulary);
  const Values L = ref::load(call.logits), losses = ref::load(call.loss);
  Values D(L.size());
  for (int64_t r = 0; r < C; ++r) {
    const int64_t target = call.targets.ptr<int32_t>()[r];
    if (target < 0) continue;
    const double lse = losses[2 * r + 1];
    for (int64_t c = 0; c < V; ++c) {
      if (!live[c]) continue;
      const double softmax = std::exp(L[r * V + c] * call.vocabulary.logit_scale - lse);
      const double onehot = call.vocabulary.first_id + c == target ? 1.0 : 0.0;
      D[r * V + c] = call.scale * call.vocabulary.logit_scale * (softmax * (1.0 + 2.0 * call.z_loss * lse) - onehot);
    }
  }
  ref::store(call.logits, D);
}

}  // namespace fp
