// Checksums of a flat buffer. bit_sums: bit patterns, modulo 2^32; piece_sums: values and magnitudes of equal pieces,
// in short f32 runs within a thread, in double across threads and blocks. A block handles up to kPiece elements and
// writes two partial sums; a second kernel adds them up. Reads everything once.
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kSumThreads = 256;
constexpr int64_t kPiece = int64_t{1} << 17;

template <class Word>
__global__ void bit_piece_kernel(uint32_t* partial, const Word* x, int64_t count) {
  const int64_t begin = int64_t{blockIdx.x} * kPiece, end = begin + kPiece < count ? begin + kPiece : count;
  uint32_t sum = 0, weighted = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kSumThreads) {
    const uint32_t word = x[i];
    sum += word;
    weighted += (2 * static_cast<uint32_t>(i) + 1) * word;
  }
  sum = block_fold<Sum>(sum);
  weighted = block_fold<Sum>(weighted);
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.x] = sum;
    partial[2 * blockIdx.x + 1] = weighted;
  }
}

// Launched with `blocks` blocks for each of gridDim.y pieces of `each` elements.
template <class T>
__global__ void value_piece_kernel(double* partial, const T* x, int64_t each) {
  constexpr int kShort = 16;
  const T* const from = x + int64_t{blockIdx.y} * each;
  const int64_t begin = int64_t{blockIdx.x} * kPiece, end = begin + kPiece < each ? begin + kPiece : each;
  double sum = 0, magnitude = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kSumThreads * kShort) {
    float plain = 0, absolute = 0;
    for (int j = 0; j < kShort; ++j) {
      const int64_t at = i + int64_t{j} * kSumThreads;
      const float value = at < end ? to_float(from[at]) : 0.0f;
      plain += value;
      absolute += fabsf(value);
    }
    sum += plain;
    magnitude += absolute;
  }
  sum = block_fold<Sum>(sum);
  magnitude = block_fold<Sum>(magnitude);
  if (threadIdx.x == 0) {
    double* const mine = partial + 2 * (int64_t{blockIdx.y} * gridDim.x + blockIdx.x);
    mine[0] = sum;
    mine[1] = magnitude;
  }
}

// A warp adds up the `count` partial sums of one piece, lane by lane in order.
template <class To, class Partial>
__global__ void fold_kernel(To* sums, const Partial* partial, int64_t count) {
  const Partial* const mine = partial + 2 * int64_t{blockIdx.x} * count;
  Partial first = 0, second = 0;
  for (int64_t i = threadIdx.x; i < count; i += kWarp) {
    first += mine[2 * i];
    second += mine[2 * i + 1];
  }
  first = warp_fold<Sum>(first);
  second = warp_fold<Sum>(second);
  if (threadIdx.x == 0) {
    sums[2 * blockIdx.x] = static_cast<To>(first);
    sums[2 * blockIdx.x + 1] = static_cast<To>(second);
  }
}

int64_t pieces_of(int64_t count) { return (count + kPiece - 1) / kPiece; }

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::BitSums& call) {
  const int64_t blocks = cuda::pieces_of(call.x.elements());
  auto* partial = reinterpret_cast<uint32_t*>(device_.scratch(static_cast<size_t>(2 * blocks + 2) * sizeof(uint32_t)));
  const auto run = [&]<class Word>(const Word* words) {
    if (blocks > 0)
      cuda::launch<cuda::bit_piece_kernel<Word>>({static_cast<unsigned>(blocks), cuda::kSumThreads}, stream(), partial,
                                                 words, call.x.elements());
  };
  call.x.dtype == DType::bf16 ? run(static_cast<const uint16_t*>(call.x.data))
                              : run(static_cast<const uint32_t*>(call.x.data));
  cuda::launch<cuda::fold_kernel<int32_t, uint32_t>>({1, cuda::kWarp}, stream(), call.sums.ptr<int32_t>(),
                                                     static_cast<const uint32_t*>(partial), blocks);
}

void CudaOps::run(const calls::PieceSums& call) {
  const int64_t pieces = call.sums.rows(), each = call.x.elements() / pieces, blocks = cuda::pieces_of(each);
  auto* partial =
      reinterpret_cast<double*>(device_.scratch(static_cast<size_t>(2 * blocks * pieces + 2) * sizeof(double)));
  if (blocks > 0)
    cuda::by_type(call.x.dtype, [&]<class T>(T) {
      const cuda::Grid grid{{static_cast<unsigned>(blocks), static_cast<unsigned>(pieces)}, cuda::kSumThreads};
      cuda::launch<cuda::value_piece_kernel<T>>(grid, stream(), partial, static_cast<const T*>(call.x.ptr<T>()), each);
    });
  cuda::launch<cuda::fold_kernel<float, double>>({static_cast<unsigned>(pieces), cuda::kWarp}, stream(),
                                                 call.sums.ptr<float>(), static_cast<const double*>(partial), blocks);
}

}  // namespace fp
