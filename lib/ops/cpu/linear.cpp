// Matrix products: by oneDNN where it is faster, otherwise by the kernels of kernels/gemm.cpp.
#include <algorithm>

#include "base/parallel.h"
#include "ops/checks.h"
#include "ops/cpu/cpu_ops.h"

namespace fp {
namespace {

constexpr int64_t kFewRows = 4;  // up to this many tokens, reading the weights dominates

}  // namespace

void CpuOps::gemm(cpu::GemmArgs g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.m <= kFewRows && !g.a_transposed && !g.b_transposed && !g.add) return k_.gemv(g);
  if (onednn_.prefers(g)) return onednn_.gemm(g, scratch_);
  g.threads = max_threads();
  const auto scratch = scratch_.acquire(k_.gemm_scratch(g));
  g.scratch = scratch.data();
  k_.gemm(g);
}

void CpuOps::linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  checks::linear(y, x, w, bias);
  gemm({.bf16 = x.dtype == DType::bf16,
        .c_bf16 = y.dtype == DType::bf16,
        .m = x.rows(),
        .n = w.shape[0],
        .k = x.cols(),
        .a = x.data,
        .b = w.data,
        .bias = bias.data,
        .c = y.data});
}

void CpuOps::linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  checks::linear_backward_input(dx, dy, w);
  gemm({.bf16 = dy.dtype == DType::bf16,
        .b_transposed = true,
        .c_bf16 = dx.dtype == DType::bf16,
        .m = dy.rows(),
        .n = dx.cols(),
        .k = dy.cols(),
        .a = dy.data,
        .b = w.data,
        .c = dx.data});
}

void CpuOps::linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  checks::linear_backward_weight(dw, dy, x);
  gemm({.bf16 = dy.dtype == DType::bf16,
        .a_transposed = true,
        .b_transposed = true,
        .add = write == Write::add,
        .m = dy.cols(),
        .n = x.cols(),
        .k = x.rows(),
        .a = dy.data,
        .b = x.data,
        .c = dw.data});
}

void CpuOps::bias_backward(const Tensor& db, const Tensor& dy, Write write) {
  checks::bias_backward(db, dy);
  const auto partial = scratch_.acquire(static_cast<size_t>(cpu::row_chunks(dy.rows()) * dy.cols()) * sizeof(float));
  k_.bias_backward({.bf16 = dy.dtype == DType::bf16,
                    .add = write == Write::add,
                    .rows = dy.rows(),
                    .cols = dy.cols(),
                    .db = db.ptr<float>(),
                    .dy = dy.data,
                    .partial = partial.as<float>()});
}

}  // namespace fp
