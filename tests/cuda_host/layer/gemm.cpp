// cuda/runtime/gemm.h on the CPU: plain loops with sums in double. It tests how the ops describe their products, not
// the products themselves.
#include "cuda/runtime/gemm.h"

#include <cmath>
#include <vector>

#include "cuda_host/memory.h"

namespace fp::cuda {
namespace {

size_t bytes_of(DType t, int64_t elements) { return static_cast<size_t>(elements) * size_of(t); }

double at(const void* p, DType t, int64_t i) {
  return t == DType::bf16 ? static_cast<const bf16*>(p)[i] : static_cast<const float*>(p)[i];
}
void put(void* p, DType t, int64_t i, double x) {
  if (t == DType::bf16)
    static_cast<bf16*>(p)[i] = bf16(static_cast<float>(x));
  else
    static_cast<float*>(p)[i] = static_cast<float>(x);
}

constexpr double kRoot = 0.7978845608028654, kCube = 0.044715;
double gelu(double x) { return 0.5 * x * (1.0 + std::tanh(kRoot * (x + kCube * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(kRoot * (x + kCube * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kRoot * (1.0 + 3.0 * kCube * x * x);
}

// op(matrix) as rows x cols doubles.
std::vector<double> gather(const void* p, DType t, bool transposed, int64_t rows, int64_t cols) {
  std::vector<double> m(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      m[static_cast<size_t>(r * cols + c)] = at(p, t, transposed ? c * rows + r : r * cols + c);
  return m;
}

double finish(const GemmCall& g, double x, int64_t row, int64_t col) {
  const bool biased = g.epilogue == Epilogue::bias || (g.epilogue == Epilogue::gelu && g.vector != nullptr);
  if (biased) x += at(g.vector, g.operands, col);
  if (g.epilogue == Epilogue::gelu) {
    put(g.aux, g.operands, row * g.n + col, x);
    return gelu(x);
  }
  return g.epilogue == Epilogue::gelu_backward ? x * gelu_slope(at(g.aux, g.operands, row * g.n + col)) : x;
}

void check_memory(const GemmCall& g) {
  host::host_reads(g.a, bytes_of(g.operands, g.m * g.k), "a of a product");
  host::host_reads(g.b, bytes_of(g.operands, g.n * g.k), "b of a product");
  if (g.add) host::host_reads(g.c, bytes_of(g.result, g.m * g.n), "c of a product");
  host::host_wrote(g.c, bytes_of(g.result, g.m * g.n));
  if (g.epilogue == Epilogue::gelu) host::host_wrote(g.aux, bytes_of(g.operands, g.m * g.n));
}

}  // namespace

struct Gemm::State {};
Gemm::Gemm(Device&) {}
Gemm::~Gemm() = default;
bool Gemm::supports(const GemmCall&) const { return true; }
size_t Gemm::own_bytes() { return 0; }

void Gemm::run(const GemmCall& g) {
  check_memory(g);
  const auto a = gather(g.a, g.operands, g.a_transposed, g.m, g.k);
  const auto b = gather(g.b, g.operands, !g.b_transposed, g.n, g.k);  // as [n,k]
  for (int64_t row = 0; row < g.m; ++row)
    for (int64_t col = 0; col < g.n; ++col) {
      double sum = g.add ? at(g.c, g.result, row * g.n + col) : 0.0;
      for (int64_t i = 0; i < g.k; ++i)
        sum += a[static_cast<size_t>(row * g.k + i)] * b[static_cast<size_t>(col * g.k + i)];
      put(g.c, g.result, row * g.n + col, finish(g, sum, row, col));
    }
}

}  // namespace fp::cuda
