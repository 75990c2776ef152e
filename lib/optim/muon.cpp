#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "optim/elementwise.h"

namespace fp {
namespace {

// X -> aX + (bA + cAA)X with A = XX', whose coefficients Jordan et al. chose for the fastest rise of small singular
// values.
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr int kIterations = 5;
constexpr double kEpsilon = 1e-7;  // on the norm

OptimizerSection adamw_of(OptimizerSection spec) {
  spec.kind = OptimizerKind::adamw;
  return spec;
}

}  // namespace

MuonOptimizer::MuonOptimizer(const OptimizerSection& spec)
    : spec_(spec), adamw_(make_elementwise_optimizer(adamw_of(spec))) {}

void MuonOptimizer::update(Ops& ops, const UpdateTensors& t, std::span<const ParamRange> ranges, const UpdateStep& step,
                           const UpdateChecksums& sums) const {
  const UpdateTensors others{t.param, {t.states[1], t.states[2]}, t.gradient, t.weights};
  UpdateStep adamw_step = step;
  adamw_step.lr *= spec_.muon.adamw_lr;
  const double momentum = spec_.muon.momentum;
  for (size_t i = 0; i < ranges.size();) {
    size_t end = i + 1;
    const auto rows = [&](const Tensor& whole) {
      return whole ? whole.slice(static_cast<int64_t>(i), static_cast<int64_t>(end - i)) : Tensor{};
    };
    if (ranges[i].matrix) {
      const IndexRange& s = ranges[i].segment;
      const Tensor g = t.gradient.slice(s.first, s.count), m = t.states[0].slice(ranges[i].state_offset, s.count);
      if (sums.gradient) ops.piece_sums({rows(sums.gradient), g});
      ops.scaled_add({m, m, g, momentum, step.grad_scale});
      ops.scaled_add({g, g, m, step.grad_scale, momentum});
    } else {
      while (end < ranges.size() && !ranges[end].matrix) ++end;
      adamw_->update(ops, others, ranges.subspan(i, end - i), adamw_step, {rows(sums.bits), rows(sums.gradient)});
    }
    i = end;
  }
}

CopyTicket MuonOptimizer::update_on_host(Ops&, const UpdateTensors&, std::span<const ParamRange>, const UpdateStep&,
                                         const CopyTicket&, const UpdateChecksums&) const {
  throw InternalError("matrices are orthogonalized on the device");
}

double muon_scale(MuonScale rule, int64_t rows, int64_t cols) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(cols);
  return rule == MuonScale::rms ? 0.2 * std::sqrt(std::max(r, c)) : std::sqrt(std::max(1.0, r / c));
}

int64_t orthogonalize_elements(int64_t rows, int64_t cols) {
  const int64_t m = std::min(rows, cols);
  return 2 * (rows * cols + m * m);
}

void orthogonalize(Ops& ops, const Tensor& x, double norm, double scale, const Tensor& workspace) {
  const int64_t rows = x.shape[0], cols = x.shape[1], m = std::min(rows, cols), n = std::max(rows, cols);
  const bool tall = rows > cols;
  constexpr int kSwap[] = {1, 0};
  int64_t used = 0;
  const auto part = [&](int64_t height, int64_t width) {
    const Tensor t = workspace.slice(used, height * width).reshaped({height, width});
    used += height * width;
    return t;
  };
  const Tensor wide = part(m, n), other = part(m, n), square = part(m, m), fourth = part(m, m);
  const Tensor first = tall ? other.reshaped({rows, cols}) : wide;
  ops.scaled_add({first, x, {}, 1.0 / (norm + kEpsilon), 0.0});
  if (tall) ops.permute({wide, first, kSwap});
  for (int i = 0; i < kIterations; ++i) {
    ops.linear({square, wide, wide});
    ops.linear({fourth, square, square});  // the square is symmetric
    ops.scaled_add({square, square, fourth, kB, kC});
    ops.linear_backward_input({other, square, wide});
    ops.scaled_add({wide, wide, other, kA, 1.0});
  }
  if (tall) ops.permute({first, wide, kSwap});
  ops.scaled_add({x, first, {}, scale, 0.0});
}

double orthogonalize_flops(int64_t rows, int64_t cols) {
  const auto m = static_cast<double>(std::min(rows, cols)), n = static_cast<double>(std::max(rows, cols));
  return kIterations * 2 * (2 * m * m * n + m * m * m);
}

}  // namespace fp
