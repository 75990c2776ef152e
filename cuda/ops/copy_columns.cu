// Copies or adds columns of a matrix to columns of another: y[m, y_first + c] (+)= x[m, x_first + c].
//
// A row is handled by a power of two of threads, at most the block's 256, and a block by as many rows as fit; adjacent
// threads handle adjacent columns. Each element is read once (and y, too, when adding) and written once.
#include <bit>
#include <numeric>

#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"

namespace fp {
namespace cuda {
namespace {

constexpr unsigned kThreads = 256;

// Addresses of the first columns, and row strides in elements.
template <class T>
struct ColumnsArgs {
  T* y;
  const T* x;
  int64_t rows, y_cols, x_cols;
  int count;
  bool add;
};

template <class T, int N>
__global__ void copy_columns_kernel(ColumnsArgs<T> a) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= a.rows) return;
  for (int c = threadIdx.x * N; c < a.count; c += blockDim.x * N) {
    T* const to = a.y + row * a.y_cols + c;
    Vec<T, N> v = load<N>(a.x + row * a.x_cols + c);
    if (a.add) {
      const Vec<T, N> old = load<N>(to);
      for (int i = 0; i < N; ++i) v.at[i] = from_float<T>(to_float(old.at[i]) + to_float(v.at[i]));
    }
    store<N>(to, v);
  }
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::CopyColumns& call) {
  if (call.x.rows() == 0 || call.count == 0) return;
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    const cuda::ColumnsArgs<T> args{
        call.y.ptr<T>() + call.y_first, call.x.ptr<T>() + call.x_first, call.x.rows(), call.y.cols(), call.x.cols(),
        static_cast<int>(call.count),   call.write == Write::add};
    const int64_t step =
        std::gcd(call.count, std::gcd(call.y.cols(), call.x.cols()));  // every row begins at a multiple of it
    cuda::by_width<T>(step, {args.y, args.x}, [&](auto width) {
      const auto moves = static_cast<uint64_t>(call.count / width.value);
      const unsigned lanes = static_cast<unsigned>(std::bit_ceil(std::min<uint64_t>(moves, cuda::kThreads)));
      const unsigned rows = cuda::kThreads / lanes;
      const cuda::Grid grid{static_cast<unsigned>((call.x.rows() + rows - 1) / rows), dim3(lanes, rows)};
      cuda::launch<cuda::copy_columns_kernel<T, width.value>>(grid, stream(), args);
    });
  });
}

}  // namespace fp
