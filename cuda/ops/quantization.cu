// Quantization of messages. A block of threads quantizes one block of elements: it reads them or sums what arrived,
// keeps them in shared memory, finds the largest magnitude, and writes the scale and the codes, a word by each thread.
// Sums take a thread for each element. Products and sums are not fused, so that the bits are those of the host.
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"
#include "ops/block_format.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256;

struct MaxBits {
  static __device__ __forceinline__ uint32_t of(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

struct PackedRow {
  float* scales;
  uint8_t* codes;
  __device__ PackedRow(std::byte* data, int64_t row, BlockFormat f, int64_t n)
      : scales(reinterpret_cast<float*>(data + row * packed_bytes(f, n))),
        codes(reinterpret_cast<uint8_t*>(scales + blocks_of(f, n))) {}
};

__device__ __forceinline__ float element_of(PackedRow row, BlockFormat f, int64_t i) {
  const int code = f.bits == 8 ? static_cast<int8_t>(row.codes[i]) : code_in_half(row.codes[i / 2], i % 2);
  return rounded_product(static_cast<float>(code), row.scales[i / f.block]);
}

// Rotates kRotated elements, of which each lane of a warp has one.
__device__ __forceinline__ float rotated(float x) {
  static_assert(kRotated == kWarp);
  for (int stride = 1; stride < kWarp; stride *= 2) {
    const float other = __shfl_xor_sync(kAllLanes, x, stride);
    x = (threadIdx.x & stride) != 0 ? other - x : x + other;
  }
  return rounded_product(x, kRotationFactor);
}

// Packs the block blockIdx.x of row blockIdx.y, whose elements are in `x`.
__device__ void pack_block(PackedRow to, BlockFormat f, int64_t n, const float* x) {
  const int64_t first = int64_t{blockIdx.x} * f.block, count = n - first < f.block ? n - first : f.block;
  uint32_t largest = 0;  // magnitudes in the order of their bits: infinities and NaN are the largest
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const uint32_t magnitude = __float_as_uint(x[i]) & 0x7fffffffu;
    largest = MaxBits::of(largest, magnitude);
  }
  largest = block_fold<MaxBits>(largest);
  const float limit = static_cast<float>(largest_code(f.bits));
  const float scale = __uint_as_float(largest < 0x7f800000u ? largest : 0x7fc00000u) / limit;
  if (threadIdx.x == 0) to.scales[blockIdx.x] = scale;
  const auto code = [&](int64_t i) {
    if (!(scale > 0)) return 0;
    return static_cast<int>(rintf(fminf(fmaxf(x[i] / scale, -limit), limit)));
  };
  const int each = 32 / f.bits;  // codes in a word
  const uint32_t mask = (1u << f.bits) - 1;
  auto* const words = reinterpret_cast<uint32_t*>(to.codes + first * f.bits / 8);
  for (int64_t w = threadIdx.x; w * each < count; w += kThreads) {
    uint32_t word = 0;
    for (int k = 0; k < each && w * each + k < count; ++k)
      word |= (static_cast<uint32_t>(code(w * each + k)) & mask) << (k * f.bits);
    words[w] = word;
  }
}

template <class T, class Base>
__global__ void quantize_kernel(std::byte* packed, const T* x, const Base* base, int64_t n, BlockFormat f,
                                int64_t inner) {
  FP_DYNAMIC_SHARED(float, block);
  const int64_t row = blockIdx.y, outer = gridDim.y / inner, from = ((row % outer) * inner + row / outer) * n;
  const int64_t first = int64_t{blockIdx.x} * f.block, last_rotated = rotated_elements(f, n);
  for (int64_t i = threadIdx.x; i < f.block && first + i < n; i += kThreads) {
    const int64_t at = from + first + i;
    float v = to_float(x[at]);
    if (base != nullptr) v -= to_float(base[at]);
    // Lanes of a warp agree: kThreads, blocks and what is rotated of a row are multiples of kRotated.
    block[i] = first + i < last_rotated ? rotated(v) : v;
  }
  __syncthreads();
  pack_block(PackedRow(packed, row, f, n), f, n, block);
}

__device__ __forceinline__ float sum_of_parts(std::byte* data, int64_t parts, int64_t rows, int64_t row, BlockFormat f,
                                              int64_t n, int64_t i) {
  float sum = 0;
  for (int64_t p = 0; p < parts; ++p) sum = rounded_sum(sum, element_of(PackedRow(data, p * rows + row, f, n), f, i));
  return sum;
}

__global__ void requantize_kernel(std::byte* packed, std::byte* data, int64_t parts, int64_t n, BlockFormat from,
                                  BlockFormat to) {
  FP_DYNAMIC_SHARED(float, sums);
  const int64_t row = blockIdx.y, first = int64_t{blockIdx.x} * to.block;
  for (int64_t i = threadIdx.x; i < to.block && first + i < n; i += kThreads)
    sums[i] = sum_of_parts(data, parts, gridDim.y, row, from, n, first + i);
  __syncthreads();
  pack_block(PackedRow(packed, row, to, n), to, n, sums);
}

template <class T>
__global__ void sum_quantized_kernel(T* y, std::byte* data, int64_t parts, int64_t n, BlockFormat f, float factor,
                                     bool add) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x, row = blockIdx.y;
  if (i >= n) return;
  float sum = sum_of_parts(data, parts, gridDim.y, row, f, n, i);
  if (i < rotated_elements(f, n)) sum = rotated(sum);
  sum = rounded_product(sum, factor);
  T& to = y[row * n + i];
  to = from_float<T>(add ? rounded_sum(to_float(to), sum) : sum);
}

// A block of threads for each block of a format, whose elements fit in its shared memory.
Grid block_grid(const BlockFormat& f, int64_t rows, int64_t n) {
  return {{static_cast<unsigned>(blocks_of(f, n)), static_cast<unsigned>(rows)},
          kThreads,
          static_cast<size_t>(f.block) * sizeof(float)};
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::Quantize& call) {
  const int64_t n = call.x.cols();
  auto* const packed = static_cast<std::byte*>(call.packed.data);
  cuda::by_type(call.x.dtype, [&](auto t) {
    using T = decltype(t);
    cuda::by_type(call.base ? call.base.dtype : DType::f32, [&](auto b) {
      using Base = decltype(b);
      const T* const x = call.x.ptr<T>();
      const Base* const base = call.base ? call.base.ptr<Base>() : nullptr;
      cuda::launch<cuda::quantize_kernel<T, Base>>(cuda::block_grid(call.format, call.x.rows(), n), stream(), packed, x,
                                                   base, n, call.format, call.inner);
    });
  });
}

void CudaOps::run(const calls::SumQuantized& call) {
  const int64_t n = call.y.cols();
  auto* const parts = static_cast<std::byte*>(call.parts.data);
  const dim3 blocks{static_cast<unsigned>((n + cuda::kThreads - 1) / cuda::kThreads),
                    static_cast<unsigned>(call.y.rows())};
  cuda::by_type(call.y.dtype, [&](auto t) {
    using T = decltype(t);
    T* const y = call.y.ptr<T>();
    cuda::launch<cuda::sum_quantized_kernel<T>>({blocks, cuda::kThreads}, stream(), y, parts, call.parts.shape[0], n,
                                                call.format, call.factor, call.write == Write::add);
  });
}

void CudaOps::run(const calls::RequantizeSums& call) {
  auto* const packed = static_cast<std::byte*>(call.packed.data);
  auto* const parts = static_cast<std::byte*>(call.parts.data);
  const cuda::Grid grid = cuda::block_grid(call.to, call.packed.shape[0], call.columns);
  cuda::launch<cuda::requantize_kernel>(grid, stream(), packed, parts, call.parts.shape[0], call.columns, call.from,
                                        call.to);
}

}  // namespace fp
