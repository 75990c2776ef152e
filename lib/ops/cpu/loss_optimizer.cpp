#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "ops/checks.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/sum_blocks.h"

namespace fp {
namespace {

cpu::LossArgs loss_args(const Tensor& logits, const Tensor& targets, const Vocabulary& v) {
  return {.bf16 = logits.dtype == DType::bf16,
          .rows = logits.rows(),
          .cols = logits.cols(),
          .live = std::clamp<int64_t>(v.valid_ids - v.first_id, 0, logits.cols()),
          .first_id = v.first_id,
          .logit_scale = static_cast<float>(v.logit_scale),
          .logits = logits.data,
          .targets = targets.ptr<int32_t>(),
          .masked = v.masked_ids ? v.masked_ids.ptr<int32_t>() : nullptr,
          .masked_count = v.masked_ids.elements()};
}

}  // namespace

void CpuOps::softmax_stats(const Tensor& stats, const Tensor& logits, const Tensor& targets,
                           const Vocabulary& vocabulary) {
  checks::softmax_stats(stats, logits, targets, vocabulary);
  cpu::LossArgs args = loss_args(logits, targets, vocabulary);
  args.stats = stats.ptr<float>();
  k_.softmax_stats(args);
}

void CpuOps::softmax_stats_merge(const Tensor& stats, const Tensor& parts) {
  checks::softmax_stats_merge(stats, parts);
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float* first = parts.ptr<float>();
  const int64_t slices = parts.shape[0], step = 3 * stats.rows();
  parallel_for(stats.rows(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float maximum = kNone, target = kNone;
      for (int64_t p = 0; p < slices; ++p) {
        maximum = std::max(maximum, first[p * step + 3 * r]);
        target = std::max(target, first[p * step + 3 * r + 2]);
      }
      const float base = maximum == kNone ? 0.0f : maximum;
      double sum = 0.0;
      for (int64_t p = 0; p < slices; ++p) {
        const float* part = first + p * step + 3 * r;
        sum += static_cast<double>(part[1]) * std::exp(static_cast<double>(part[0]) - static_cast<double>(base));
      }
      float* to = stats.ptr<float>() + 3 * r;
      to[0] = maximum, to[1] = static_cast<float>(sum), to[2] = target;
    }
  });
}

void CpuOps::cross_entropy(const Tensor& loss, const Tensor& stats, const Tensor& targets) {
  checks::cross_entropy(loss, stats, targets);
  float* l = loss.ptr<float>();
  const float* s = stats.ptr<float>();
  const int32_t* target = targets.ptr<int32_t>();
  for (int64_t r = 0; r < loss.rows(); ++r, l += 2, s += 3) {
    const double lse = static_cast<double>(s[0]) + std::log(static_cast<double>(s[1]));
    const bool counts = target[r] >= 0;
    l[0] = counts ? static_cast<float>(lse - static_cast<double>(s[2])) : 0.0f;
    l[1] = counts ? static_cast<float>(lse) : 0.0f;
  }
}

void CpuOps::cross_entropy_backward(const Tensor& logits, const Tensor& loss, const Tensor& targets,
                                    const Vocabulary& vocabulary, double scale, double z_loss) {
  checks::cross_entropy_backward(logits, loss, targets, vocabulary);
  cpu::LossArgs args = loss_args(logits, targets, vocabulary);
  args.loss = loss.ptr<float>();
  args.scale = static_cast<float>(scale);
  args.z_loss = static_cast<float>(z_loss);
  k_.cross_entropy_backward(args);
}

void CpuOps::sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments) {
  checks::sum_squares(sums, x, segments);
  std::vector<cpu::Block> blocks;
  for (const Segment& s : segments) cpu::append_blocks(blocks, s.offset, s.count);
  std::vector<double> partial(blocks.size());
  k_.sum_squares(partial.data(), x.ptr<float>(), blocks.data(), static_cast<int64_t>(blocks.size()));
  auto next = partial.begin();
  for (size_t s = 0; s < segments.size(); ++s) {
    double total = 0.0;
    for (size_t i = 0; i < cpu::blocks_in(segments[s].count); ++i) total += *next++;
    sums.ptr<float>()[s] = static_cast<float>(total);
  }
}

void CpuOps::adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
                   const AdamW& a, const AdamWSums& sums) {
  checks::adamw(param, m, v, grad, weights, a, sums);
  const size_t blocks = cpu::blocks_in(param.elements());
  std::vector<double> gradient(sums.gradient ? 2 * blocks : 0);
  std::vector<uint32_t> bits(sums.bits ? 8 * blocks : 0);
  const auto step = static_cast<double>(a.step);
  const auto f = [](double x) { return static_cast<float>(x); };
  k_.adamw({.count = param.elements(),
            .param = param.ptr<float>(),
            .m = m.ptr<float>(),
            .v = v.ptr<float>(),
            .grad = grad.ptr<float>(),
            .weights = weights.data,
            .block = cpu::kSumBlock,
            .gradient_sums = sums.gradient ? gradient.data() : nullptr,
            .bit_sums = sums.bits ? bits.data() : nullptr,
            .lr = f(a.lr),
            .beta1 = f(a.beta1),
            .beta2 = f(a.beta2),
            .one_minus_beta1 = f(1.0 - a.beta1),
            .one_minus_beta2 = f(1.0 - a.beta2),
            .eps = f(a.eps),
            .weight_decay = f(a.weight_decay),
            .m_correction = f(1.0 / (1.0 - std::pow(a.beta1, step))),
            .v_correction = f(1.0 / (1.0 - std::pow(a.beta2, step))),
            .grad_scale = f(a.grad_scale)});
  if (sums.gradient) cpu::fold_piece_sums(sums.gradient.ptr<float>(), gradient.data(), blocks);
  for (size_t k = 0; sums.bits && k < 8; k += 2)
    cpu::fold_bit_sums(sums.bits.ptr<int32_t>() + k, bits.data() + k, blocks, 8);
}

}  // namespace fp
