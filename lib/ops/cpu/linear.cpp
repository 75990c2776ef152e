// Matrix products.
#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/cpu_ops.h"

namespace fp {
namespace {

constexpr int64_t kFewRows = 4;  // up to this many tokens, reading the weights dominates

cpu::GemmArgs gemm_args(const calls::Linear& call) {
  return {.bf16 = call.x.dtype == DType::bf16,
          .c_bf16 = call.y.dtype == DType::bf16,
          .m = call.x.rows(),
          .n = call.w.shape[0],
          .k = call.x.cols(),
          .a = call.x.data,
          .b = call.w.data,
          .bias = call.bias.data,
          .c = call.y.data,
          .threads = max_threads()};
}

cpu::GemmArgs gemm_args(const calls::LinearBackwardInput& call) {
  return {.bf16 = call.dy.dtype == DType::bf16,
          .b_transposed = true,
          .c_bf16 = call.dx.dtype == DType::bf16,
          .m = call.dy.rows(),
          .n = call.dx.cols(),
          .k = call.dy.cols(),
          .a = call.dy.data,
          .b = call.w.data,
          .c = call.dx.data,
          .threads = max_threads()};
}

cpu::GemmArgs gemm_args(const calls::LinearBackwardWeight& call) {
  return {.bf16 = call.dy.dtype == DType::bf16,
          .a_transposed = true,
          .b_transposed = true,
          .add = call.write == Write::add,
          .m = call.dy.cols(),
          .n = call.x.cols(),
          .k = call.x.rows(),
          .a = call.dy.data,
          .b = call.x.data,
          .c = call.dw.data,
          .threads = max_threads()};
}

bool is_gemv(const cpu::GemmArgs& g) { return g.m <= kFewRows && !g.a_transposed && !g.b_transposed && !g.add; }

}  // namespace

size_t CpuOps::scratch_of(const cpu::GemmArgs& g) const {
  return g.m == 0 || g.n == 0 || is_gemv(g) ? 0 : k_.gemm_scratch(g);
}

void CpuOps::gemm(cpu::GemmArgs g) {
  if (g.m == 0 || g.n == 0) return;
  if (is_gemv(g)) return k_.gemv(g);
  g.symmetric = g.a == g.b && g.m == g.n && g.a_transposed == g.b_transposed && g.bias == nullptr && !g.add;
  const auto scratch = scratch_.acquire(scratch_of(g));
  g.scratch = scratch.data();
  k_.gemm(g);
}

#define FP_OP(Call, name)                                                                          \
  size_t CpuOps::scratch_of(const calls::Call& call) const { return scratch_of(gemm_args(call)); } \
  void CpuOps::run(const calls::Call& call) { gemm(gemm_args(call)); }
FP_PRODUCTS(FP_OP)
#undef FP_OP

size_t CpuOps::scratch_of(const calls::BiasBackward& call) const {
  return static_cast<size_t>(cpu::row_chunks(call.dy.rows()) * call.dy.cols()) * sizeof(float);
}

void CpuOps::run(const calls::BiasBackward& call) {
  const auto partial = scratch_.acquire(scratch_of(call));
  k_.bias_backward({.bf16 = call.dy.dtype == DType::bf16,
                    .add = call.write == Write::add,
                    .rows = call.dy.rows(),
                    .cols = call.dy.cols(),
                    .db = call.db.ptr<float>(),
                    .dy = call.dy.data,
                    .partial = partial.as<float>()});
}

}  // namespace fp
