// Matrix products.
#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/cpu_ops.h"

namespace fp {
namespace {

constexpr int64_t kFewRows = 4;  // up to this many tokens, reading the weights dominates

}  // namespace

void CpuOps::gemm(cpu::GemmArgs g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.m <= kFewRows && !g.a_transposed && !g.b_transposed && !g.add) return k_.gemv(g);
  g.threads = max_threads();
  g.symmetric = g.a == g.b && g.m == g.n && g.a_transposed == g.b_transposed && g.bias == nullptr && !g.add;
  const auto scratch = scratch_.acquire(k_.gemm_scratch(g));
  g.scratch = scratch.data();
  k_.gemm(g);
}

void CpuOps::run(const calls::Linear& call) {
  gemm({.bf16 = call.x.dtype == DType::bf16,
        .c_bf16 = call.y.dtype == DType::bf16,
        .m = call.x.rows(),
        .n = call.w.shape[0],
        .k = call.x.cols(),
        .a = call.x.data,
        .b = call.w.data,
        .bias = call.bias.data,
        .c = call.y.data});
}

void CpuOps::run(const calls::LinearBackwardInput& call) {
  gemm({.bf16 = call.dy.dtype == DType::bf16,
        .b_transposed = true,
        .c_bf16 = call.dx.dtype == DType::bf16,
        .m = call.dy.rows(),
        .n = call.dx.cols(),
        .k = call.dy.cols(),
        .a = call.dy.data,
        .b = call.w.data,
        .c = call.dx.data});
}

void CpuOps::run(const calls::LinearBackwardWeight& call) {
  gemm({.bf16 = call.dy.dtype == DType::bf16,
        .a_transposed = true,
        .b_transposed = true,
        .add = call.write == Write::add,
        .m = call.dy.cols(),
        .n = call.x.cols(),
        .k = call.x.rows(),
        .a = call.dy.data,
        .b = call.x.data,
        .c = call.dw.data});
}

void CpuOps::run(const calls::BiasBackward& call) {
  const auto partial =
      scratch_.acquire(static_cast<size_t>(cpu::row_chunks(call.dy.rows()) * call.dy.cols()) * sizeof(float));
  k_.bias_backward({.bf16 = call.dy.dtype == DType::bf16,
                    .add = call.write == Write::add,
                    .rows = call.dy.rows(),
                    .cols = call.dy.cols(),
                    .db = call.db.ptr<float>(),
                    .dy = call.dy.data,
                    .partial = partial.as<float>()});
}

}  // namespace fp
