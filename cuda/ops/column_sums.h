// Column sums of a matrix, one or two for each column: gradients of biases and of norm gains.
//
// A block handles the columns of 32 threads and a range of rows. Its 8 warps take every eighth row, 16 bytes per
// thread, and add their sums up in order. Each range leaves partial sums in scratch (at most 1 MiB), which a second
// launch adds up in the same way. Everything is read once; the order of every sum is fixed.
#pragma once

#include "cuda/ops/rows.h"
#include "ops/ops.h"

namespace fp::cuda {

// A term has kSums and add<N>(sums[kSums][N], row, column), which adds N columns of a row. This one sums the elements
// of a matrix.
template <class T>
struct Elements {
  static constexpr int kSums = 1;
  const T* x;
  int cols;

  template <int N>
  __device__ __forceinline__ void add(float (&sums)[1][N], int64_t row, int c) const {
    const auto v = load<N>(x + row * cols + c);
    for (int i = 0; i < N; ++i) sums[0][i] += to_float(v.at[i]);
  }
};

// The term of the second launch: its block z adds up the partial sums z.
struct PartialSums {
  static constexpr int kSums = 1;
  const float* x;  // [z, rows, cols]
  int64_t rows;
  int cols;

  template <int N>
  __device__ __forceinline__ void add(float (&sums)[1][N], int64_t row, int c) const {
    Elements<float>{x + blockIdx.z * rows * cols, cols}.add(sums, row, c);
  }
};

struct SumTargets {
  float* at[2];  // each [stretches, cols]; block z writes at[z] first
};

constexpr int kSumWarps = 8, kSumUnroll = 4;

template <class Term, int N>
__global__ void __launch_bounds__(kSumWarps* kWarp, 4)
    column_sums_kernel(SumTargets out, Term term, int64_t rows, int cols, int64_t rows_per_block, Write write) {
  constexpr int kWidth = kWarp * N;
  FP_SHARED(float, parts, kSumWarps* Term::kSums* kWidth);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp,
            first_column = static_cast<int>(blockIdx.x) * kWidth;
  const int64_t first = blockIdx.y * rows_per_block,
                last = first + rows_per_block < rows ? first + rows_per_block : rows;
  float sums[Term::kSums][N] = {};
  if (first_column + lane * N < cols) {
#pragma unroll kSumUnroll
    for (int64_t row = first + warp; row < last; row += kSumWarps) term.add(sums, row, first_column + lane * N);
  }
  for (int s = 0; s < Term::kSums; ++s)
    for (int i = 0; i < N; ++i) parts[(warp * Term::kSums + s) * kWidth + lane * N + i] = sums[s][i];
  __syncthreads();
  for (int s = 0; s < Term::kSums; ++s)
    for (int c = static_cast<int>(threadIdx.x); c < kWidth && first_column + c < cols; c += kSumWarps * kWarp) {
      float sum = parts[s * kWidth + c];
      for (int w = 1; w < kSumWarps; ++w) sum += parts[(w * Term::kSums + s) * kWidth + c];
      float& to = (blockIdx.z + s == 0 ? out.at[0] : out.at[1])[int64_t{blockIdx.y} * cols + first_column + c];
      to = write == Write::add ? to + sum : sum;
    }
}

template <int N, class Term>
void launch_column_sums(const SumTargets& out, unsigned sums, const Term& term, int64_t rows, int64_t cols,
                        int64_t rows_per_block, Write write, Stream stream) {
  const dim3 blocks(static_cast<unsigned>((cols + kWarp * N - 1) / (kWarp * N)),
                    static_cast<unsigned>(std::max<int64_t>((rows + rows_per_block - 1) / rows_per_block, 1)), sums);
  launch<column_sums_kernel<Term, N>>({blocks, kSumWarps * kWarp}, stream, out, term, rows, static_cast<int>(cols),
                                      rows_per_block, write);
}

// Computes out[s][c] = (or +=) sum over rows of `term`, N columns at a time.
template <int N, class Term>
void column_sums(Device& device, const SumTargets& out, const Term& term, int64_t rows, int64_t cols, Write write) {
  // The blocks that a large GPU runs at once, each with whole unrolled steps of all its warps.
  constexpr int64_t kBlocks = 512, kStep = kSumWarps * kSumUnroll;
  const int64_t strips = (cols + kWarp * N - 1) / (kWarp * N), steps = (rows + kStep - 1) / kStep;
  const int64_t wanted = std::max<int64_t>(std::min(kBlocks / strips, steps), 1);
  const int64_t rows_per_block = std::max<int64_t>((steps + wanted - 1) / wanted, 1) * kStep;
  const int64_t stretches = (rows + rows_per_block - 1) / rows_per_block;
  if (stretches <= 1) return launch_column_sums<N>(out, 1, term, rows, cols, rows_per_block, write, device.compute());
  const int64_t count = stretches * cols;
  auto* partial = reinterpret_cast<float*>(device.scratch(static_cast<size_t>(Term::kSums * count) * sizeof(float)));
  launch_column_sums<N>({{partial, partial + count}}, 1, term, rows, cols, rows_per_block, Write::set,
                        device.compute());
  launch_column_sums<1>(out, Term::kSums, PartialSums{partial, stretches, static_cast<int>(cols)}, stretches, cols,
                        stretches, write, device.compute());
}

}  // namespace fp::cuda
