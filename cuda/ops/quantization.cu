// Quantization of messages. A thread handles eights of adjacent elements, whose codes are one word, or two of 8 bits.
//
// A team of lanes of one warp quantizes a block of elements: it reads them or sums what arrived, keeps them in shared
// memory, finds the largest magnitude, and writes the scale and the codes. Lanes only access elements of their own.
// Products and sums are not fused, so that the bits are those of the host.
#include <bit>

#include "cuda/device/launch.h"
#include "cuda/device/math.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"
#include "ops/block_format.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEight = 8;
using Eight = float[kEight];

struct MaxBits {
  static __device__ __forceinline__ uint32_t of(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

// Rows of a format, in words and eights, of which a row has less than 2^31. Kernels get what divisions would find, as
// these would cost them more than all else.
struct PackedRows {
  uint32_t* data;
  int64_t row_words, scales;
  unsigned bits, eights_of_block, reciprocal, shift;
  bool rotated;

  PackedRows(const Tensor& t, const BlockFormat& f, int64_t n)
      : data(static_cast<uint32_t*>(t.data)),
        row_words(packed_bytes(f, n) / 4),
        scales(blocks_of(f, n)),
        bits(static_cast<unsigned>(f.bits)),
        eights_of_block(static_cast<unsigned>(f.block / kEight)),
        reciprocal(0),
        shift(31 + static_cast<unsigned>(std::bit_width(eights_of_block - 1))),
        rotated(f.rotated) {
    reciprocal = static_cast<unsigned>((uint64_t{1} << shift) / eights_of_block + 1);
  }

  __device__ __forceinline__ float* scale(int64_t row, unsigned block) const {
    return reinterpret_cast<float*>(data + row * row_words) + block;
  }
  __device__ __forceinline__ uint32_t* codes(int64_t row, unsigned eight) const {
    return data + row * row_words + scales + int64_t{eight} * (bits / 4);
  }
  // Returns eight / eights_of_block (Granlund and Montgomery 1994, "Division by Invariant Integers").
  __device__ __forceinline__ unsigned block_of(unsigned eight) const {
    return static_cast<unsigned>(uint64_t{eight} * reciprocal >> shift);
  }
};

// Returns whether eight elements that begin at p, of which a row has `count`, can be moved 16 bytes at a time.
__device__ __forceinline__ bool moves_wide(const void* p, int count) {
  return count >= kEight && reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

// Loads the first `count` of eight elements, and leaves the others as they are.
template <class T>
__device__ __forceinline__ void load_eight(Eight& x, const T* p, int count) {
  constexpr int N = kWide<T>;
  if (moves_wide(p, count)) {
#pragma unroll
    for (int i = 0; i < kEight; i += N) {
      const auto v = load<N>(p + i);
      for (int k = 0; k < N; ++k) x[i + k] = to_float(v.at[k]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < count) x[i] = to_float(p[i]);
}

template <class T>
__device__ __forceinline__ void store_eight(T* p, const Eight& x, int count) {
  constexpr int N = kWide<T>;
  if (moves_wide(p, count)) {
#pragma unroll
    for (int i = 0; i < kEight; i += N) {
      Vec<T, N> v;
      for (int k = 0; k < N; ++k) v.at[k] = from_float<T>(x[i + k]);
      store<N>(p + i, v);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < count) p[i] = from_float<T>(x[i]);
}

// Rotates kRotated elements, eight in each of four adjacent lanes, if they are `whole`. All lanes of a warp must call.
__device__ __forceinline__ void rotate_eight(Eight& x, bool whole) {
  static_assert(kRotated == 4 * kEight);
  Eight y;
  for (int i = 0; i < kEight; ++i) y[i] = x[i];
#pragma unroll
  for (int stride = 1; stride < kEight; stride *= 2)
    for (int i = 0; i < kEight; ++i) {
      if ((i & stride) != 0) continue;
      const float a = y[i], b = y[i + stride];
      y[i] = a + b;
      y[i + stride] = a - b;
    }
#pragma unroll
  for (int lanes = 1; lanes < kRotated / kEight; lanes *= 2)
    for (int i = 0; i < kEight; ++i) {
      const float other = __shfl_xor_sync(kAllLanes, y[i], lanes);
      y[i] = (threadIdx.x & lanes) != 0 ? other - y[i] : y[i] + other;
    }
  if (!whole) return;
  for (int i = 0; i < kEight; ++i) x[i] = rounded_product(y[i], kRotationFactor);
}

// Finds the codes of eight elements, in the low bits of words: their quotients by the scale, rounded to integers.
__device__ __forceinline__ void find_codes(uint32_t (&codes)[kEight], const Eight& x, float scale, float limit) {
  constexpr float kWholes = 12582912.0f;  // 1.5 * 2^23: from here on floats are whole numbers
  const float reciprocal = reciprocal_approx(scale);
  float furthest = 0;
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const float code = fmaf(x[i], reciprocal, kWholes);
    codes[i] = __float_as_uint(code);
    furthest = fmaxf(furthest, fabsf(fmaf(kWholes - code, scale, x[i])));
  }
  // The host rounds quotients, which are below 128, by 2^-18 at most: only those so near to a half are divided here.
  constexpr float kSure = 0.5f - 0x1p-16f, kLeast = 0x1p-100f;
  if (scale >= kLeast && furthest <= kSure * scale) return;
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const float code = scale > 0 ? rintf(fminf(fmaxf(x[i] / scale, -limit), limit)) : 0.0f;
    codes[i] = static_cast<uint32_t>(static_cast<int>(code));
  }
}

template <int Bits>
__device__ __forceinline__ void store_codes(uint32_t* words, const uint32_t (&codes)[kEight], int count) {
  constexpr int kCodes = 32 / Bits;
#pragma unroll
  for (int first = 0; first < kEight; first += kCodes) {
    if (first >= count) return;
    uint32_t word = 0;
    for (int k = 0; k < kCodes; ++k) word |= (codes[first + k] & ((1u << Bits) - 1)) << (k * Bits);
    words[first / kCodes] = word;
  }
}

template <int Bits>
__device__ __forceinline__ void add_codes(Eight& sums, const uint32_t* words, float scale, int count) {
  constexpr int kCodes = 32 / Bits;
#pragma unroll
  for (int first = 0; first < kEight; first += kCodes) {
    if (first >= count) return;
    const uint32_t word = words[first / kCodes];
    for (int k = 0; k < kCodes; ++k) {
      const auto byte = static_cast<uint8_t>(word >> (k * Bits / 8 * 8));
      const int code = Bits == 8 ? static_cast<int8_t>(byte) : code_in_half(byte, k % 2);
      sums[first + k] = rounded_sum(sums[first + k], rounded_product(static_cast<float>(code), scale));
    }
  }
}

// Sums an eight of a row over the parts; the elements that the row does not have are 0.
__device__ __forceinline__ void sum_parts(Eight& sums, const PackedRows& from, int parts, unsigned eight, int count) {
  for (float& x : sums) x = 0;
  if (count <= 0) return;
  const unsigned block = from.block_of(eight);
  int64_t row = blockIdx.y;
  for (int p = 0; p < parts; ++p, row += gridDim.y) {
    const float scale = *from.scale(row, block);
    const uint32_t* const words = from.codes(row, eight);
    from.bits == 8 ? add_codes<8>(sums, words, scale, count) : add_codes<4>(sums, words, scale, count);
  }
  if (count >= kEight) return;
#pragma unroll
  for (int k = 0; k < kEight; ++k)
    if (k >= count) sums[k] = 0;
}

// Returns how many elements a row of n has from an eight on, at most `most`; less than 1: none.
__device__ __forceinline__ int elements_from(unsigned eight, int64_t n, int most) {
  const int64_t left = n - int64_t{eight} * kEight;
  return static_cast<int>(left < most ? (left > 0 ? left : 0) : most);
}

// Quantizes a block of row `row` by the lanes threadIdx.x; team threadIdx.y has its own. fill(x, eight, count, whole)
// gives an eight, of which the block has `count` elements; `whole`: so are all that would be rotated with them.
template <class Fill>
__device__ __forceinline__ void pack_block(const PackedRows& to, int64_t row, int64_t n, Fill&& fill) {
  FP_DYNAMIC_SHARED(float, elements);
  const unsigned block = blockIdx.x * blockDim.y + threadIdx.y, first = block * to.eights_of_block;
  const int size = static_cast<int>(to.eights_of_block) * kEight, count = elements_from(first, n, size);
  float* const kept = elements + static_cast<int>(threadIdx.y) * size;
  uint32_t largest = 0;  // magnitudes in the order of their bits: infinities and NaN are the largest
  for (unsigned begin = 0; begin < to.eights_of_block; begin += blockDim.x) {  // of all lanes, as `fill` may shuffle
    const unsigned eight = begin + threadIdx.x;
    const int i = static_cast<int>(eight) * kEight;
    Eight x = {};
    fill(x, first + eight, count - i, (i | (kRotated - 1)) < count);
    for (const float v : x) largest = MaxBits::of(largest, __float_as_uint(v) & 0x7fffffffu);
    if (i < count) store_floats(kept + i, x);
  }
  largest = warp_fold<MaxBits>(largest, static_cast<int>(blockDim.x));
  const float limit = to.bits == 8 ? largest_code(8) : largest_code(4);
  const float scale = __uint_as_float(largest < 0x7f800000u ? largest : 0x7fc00000u) / limit;
  if (threadIdx.x == 0 && count > 0) *to.scale(row, block) = scale;
  for (unsigned eight = threadIdx.x; static_cast<int>(eight) * kEight < count; eight += blockDim.x) {
    const int i = static_cast<int>(eight) * kEight;
    Eight x;
    load_floats(x, kept + i);
    uint32_t codes[kEight];
    find_codes(codes, x, scale, limit);
    uint32_t* const words = to.codes(row, first + eight);
    to.bits == 8 ? store_codes<8>(words, codes, count - i) : store_codes<4>(words, codes, count - i);
  }
}

// Row z * gridDim.y + y of the message is row y * gridDim.z + z of x.
template <class T, class Base>
__global__ void quantize_kernel(PackedRows to, const T* x, const Base* base, int64_t n) {
  const int64_t from = (int64_t{blockIdx.y} * gridDim.z + blockIdx.z) * n;
  const int64_t row = int64_t{blockIdx.z} * gridDim.y + blockIdx.y;
  pack_block(to, row, n, [&](Eight& v, unsigned eight, int count, bool whole) {
    const int64_t at = from + int64_t{eight} * kEight;
    load_eight(v, x + at, count);
    if (base != nullptr) {
      Eight b = {};
      load_eight(b, base + at, count);
      for (int k = 0; k < kEight; ++k) v[k] -= b[k];
    }
    if (to.rotated) rotate_eight(v, whole);
  });
}

__global__ void requantize_kernel(PackedRows to, PackedRows from, int parts, int64_t n) {
  pack_block(to, blockIdx.y, n,
             [&](Eight& sums, unsigned eight, int count, bool) { sum_parts(sums, from, parts, eight, count); });
}

template <class T>
__global__ void sum_quantized_kernel(T* y, PackedRows from, int parts, int64_t n, float factor, bool add) {
  const unsigned eight = blockIdx.x * kThreads + threadIdx.x;
  const int64_t i = int64_t{eight} * kEight;
  const int count = elements_from(eight, n, kEight);
  Eight sums;
  sum_parts(sums, from, parts, eight, count);
  if (from.rotated) rotate_eight(sums, (i | (kRotated - 1)) < n);
  for (float& x : sums) x = rounded_product(x, factor);
  T* const to = y + blockIdx.y * n + i;
  if (add) {
    Eight before = {};
    load_eight(before, to, count);
    for (int k = 0; k < kEight; ++k) sums[k] = rounded_sum(before[k], sums[k]);
  }
  store_eight(to, sums, count);
}

// A team for each block of a format: a power of two of lanes with about two eights each, and no fewer than rotate
// together. The elements of all teams of a block of threads take 32 KiB of shared memory at most.
Grid team_grid(const BlockFormat& f, int64_t n, int64_t outer, int64_t inner) {
  constexpr int64_t kKept = 8192;  // elements
  const int64_t pairs = std::clamp<int64_t>(f.block / (2 * kEight), kRotated / kEight, kWarp);
  const auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(pairs)));
  const int64_t teams = std::min(kThreads / lanes, kKept / f.block), blocks = (blocks_of(f, n) + teams - 1) / teams;
  return {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(outer), static_cast<unsigned>(inner)),
          dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(teams)),
          static_cast<size_t>(teams * f.block) * sizeof(float)};
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::Quantize& call) {
  const int64_t rows = call.x.rows(), n = call.x.cols();
  const cuda::PackedRows to(call.packed, call.format, n);
  const cuda::Grid grid = cuda::team_grid(call.format, n, rows / call.inner, call.inner);
  cuda::by_type(call.x.dtype, [&](auto t) {
    using T = decltype(t);
    cuda::by_type(call.base ? call.base.dtype : DType::f32, [&](auto b) {
      using Base = decltype(b);
      const T* const x = call.x.ptr<T>();
      const Base* const base = call.base ? call.base.ptr<Base>() : nullptr;
      cuda::launch<cuda::quantize_kernel<T, Base>>(grid, stream(), to, x, base, n);
    });
  });
}

void CudaOps::run(const calls::SumQuantized& call) {
  constexpr int64_t kOfBlock = int64_t{cuda::kThreads} * cuda::kEight;
  const int64_t n = call.y.cols();
  const cuda::PackedRows from(call.parts, call.format, n);
  const dim3 blocks(static_cast<unsigned>((n + kOfBlock - 1) / kOfBlock), static_cast<unsigned>(call.y.rows()));
  cuda::by_type(call.y.dtype, [&](auto t) {
    using T = decltype(t);
    T* const y = call.y.ptr<T>();
    cuda::launch<cuda::sum_quantized_kernel<T>>({blocks, cuda::kThreads}, stream(), y, from,
                                                static_cast<int>(call.parts.shape[0]), n, call.factor,
                                                call.write == Write::add);
  });
}

void CudaOps::run(const calls::RequantizeSums& call) {
  const cuda::PackedRows to(call.packed, call.to, call.columns), from(call.parts, call.from, call.columns);
  const cuda::Grid grid = cuda::team_grid(call.to, call.columns, call.packed.shape[0], 1);
  cuda::launch<cuda::requantize_kernel>(grid, stream(), to, from, static_cast<int>(call.parts.shape[0]), call.columns);
}

}  // namespace fp
