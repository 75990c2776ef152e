#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
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

void CpuOps::run(const calls::SoftmaxStats& call) {
  cpu::LossArgs args = loss_args(call.logits, call.targets, call.vocabulary);
  args.stats = call.stats.ptr<float>();
  k_.softmax_stats(args);
}

void CpuOps::run(const calls::SoftmaxStatsMerge& call) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float* first = call.parts.ptr<float>();
  const int64_t slices = call.parts.shape[0], step = 3 * call.stats.rows();
  parallel_for(call.stats.rows(), 1024, [&](int64_t begin, int64_t end) {
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
      float* to = call.stats.ptr<float>() + 3 * r;
      to[0] = maximum, to[1] = static_cast<float>(sum), to[2] = target;
    }
  });
}

void CpuOps::run(const calls::CrossEntropy& call) {
  float* l = call.loss.ptr<float>();
  const float* s = call.stats.ptr<float>();
  const int32_t* target = call.targets.ptr<int32_t>();
  for (int64_t r = 0; r < call.loss.rows(); ++r, l += 2, s += 3) {
    const double lse = static_cast<double>(s[0]) + std::log(static_cast<double>(s[1]));
    const bool counts = target[r] >= 0;
    l[0] = counts ? static_cast<float>(lse - static_cast<double>(s[2])) : 0.0f;
    l[1] = counts ? static_cast<float>(lse) : 0.0f;
  }
}

void CpuOps::run(const calls::CrossEntropyBackward& call) {
  cpu::LossArgs args = loss_args(call.logits, call.targets, call.vocabulary);
  args.loss = call.loss.ptr<float>();
  args.scale = static_cast<float>(call.scale);
  args.z_loss = static_cast<float>(call.z_loss);
  k_.cross_entropy_backward(args);
}

void CpuOps::run(const calls::SumSquares& call) {
  std::vector<cpu::Block> blocks;
  for (const IndexRange& s : call.segments) cpu::append_blocks(blocks, s.first, s.count);
  std::vector<double> partial(blocks.size());
  k_.sum_squares(partial.data(), call.x.ptr<float>(), blocks.data(), static_cast<int64_t>(blocks.size()));
  auto next = partial.begin();
  for (size_t s = 0; s < call.segments.size(); ++s) {
    double total = 0.0;
    for (size_t i = 0; i < cpu::blocks_in(call.segments[s].count); ++i) total += *next++;
    call.sums.ptr<float>()[s] = static_cast<float>(total);
  }
}

namespace {

template <class Rule, class Call>
void run_update(const cpu::Kernels& kernels, const Call& call) {
  constexpr size_t kSums = 2 * (Rule::kStates + 2);
  const size_t blocks = cpu::blocks_in(call.param.elements());
  std::vector<double> gradient(call.sums.gradient ? 2 * blocks : 0);
  std::vector<uint32_t> bits(call.sums.bits ? kSums * blocks : 0);
  const Rule rule(call.options);
  cpu::UpdateArgs a{.rule = Rule::kRule,
                    .numbers = &rule,
                    .count = call.param.elements(),
                    .param = call.param.template ptr<float>(),
                    .grad = call.grad.template ptr<float>(),
                    .weights = call.weights.data,
                    .block = cpu::kSumBlock,
                    .gradient_sums = call.sums.gradient ? gradient.data() : nullptr,
                    .bit_sums = call.sums.bits ? bits.data() : nullptr};
  for (size_t k = 0; k < call.states.size(); ++k) a.states[k] = call.states[k].template ptr<float>();
  kernels.update(a);
  if (call.sums.gradient) cpu::fold_piece_sums(call.sums.gradient.template ptr<float>(), gradient.data(), blocks);
  for (size_t k = 0; call.sums.bits && k < kSums; k += 2)
    cpu::fold_bit_sums(call.sums.bits.template ptr<int32_t>() + k, bits.data() + k, blocks, kSums);
}

}  // namespace

#define FP_UPDATE(Rule, name) \
  void CpuOps::run(const calls::Rule& call) { run_update<rules::Rule>(k_, call); }
FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE

}  // namespace fp
