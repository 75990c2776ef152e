#include <functional>
#include <map>

#include "cuda/device/async_copy.h"
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda_host/memory.h"
#include "cuda_host/planted.h"

namespace fp::cuda::planted {
namespace {

constexpr int kThreads = 128;

// y[i] = x[n-1-i] through shared memory.
template <bool Barrier>
__global__ void reverse_kernel(float* y, const float* x, int n) {
  FP_SHARED(float, all, kThreads);
  const int i = threadIdx.x;
  if (i < n) all[i] = x[i];
  if (Barrier) __syncthreads();
  if (i < n) y[i] = all[n - 1 - i];
}

// Accesses one element too many when Extra is 1.
template <int Extra>
__global__ void scale_kernel(float* y, const float* x, int n) {
  for (int i = threadIdx.x; i < n + Extra; i += kThreads) y[i] = 2.0f * x[i];
}

template <bool Own>
__global__ void blocks_kernel(float* y, const float* x, int n) {
  const int i =
      Own ? static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x) : static_cast<int>(threadIdx.x);
  if (i < n) y[i] = x[i];
}

// Neighbours in a warp exchange through shared memory.
template <bool Sync>
__global__ void neighbour_kernel(float* y, const float* x, int n) {
  FP_SHARED(float, all, kThreads);
  const int i = threadIdx.x;
  all[i] = i < n ? x[i] : 0.0f;
  if (Sync) __syncwarp();
  if (i < n) y[i] = all[i ^ 1];
}

template <bool Everyone>
__global__ void half_barrier_kernel(float* y, const float* x, int n) {
  const int i = threadIdx.x;
  if (Everyone || i < kThreads / 2) __syncthreads();
  if (i < n) y[i] = x[i];
}

__global__ void early_exit_kernel(float* y, const float* x, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  y[i] = warp_fold<Sum>(x[i]);
}

template <bool Written>
__global__ void unwritten_kernel(float* y, const float* x, int n) {
  const int i = threadIdx.x;
  if (Written && i < n) y[i] = x[i];
  if (i < n) y[i] += 1.0f;
}

template <bool Waits>
__global__ void async_kernel(float* y, const float* x, int n) {
  FP_SHARED(float, all, kThreads);
  const int i = threadIdx.x * 4;
  if (i < n) copy_async_16(all + i, x + i);
  commit_copies();
  if (Waits) wait_copies<0>();
  __syncthreads();
  if (i < n)
    for (int j = 0; j < 4; ++j) y[i + j] = all[n - 1 - i - j];
}

template <int Offset>
__global__ void vector_kernel(float* y, const float* x, int) {
  if (threadIdx.x == 0) store<4>(y, load<4>(x + Offset));
}

// The rounding of the sum depends on the thread order: the layer reports nothing, but the bits differ.
__global__ void ordered_sum_kernel(float* y, const float* x, int n) {
  if (threadIdx.x == 0) y[0] = 0.0f;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < n) atomicAdd(y, x[threadIdx.x]);
}

template <auto Kernel>
void run(float* y, const float* x, int n) {
  launch<Kernel>({2, kThreads}, nullptr, y, x, n);
}
template <auto Kernel>
void run_one(float* y, const float* x, int n) {
  launch<Kernel>({1, kThreads}, nullptr, y, x, n);
}

const std::map<std::string, std::function<void(float*, const float*, int)>> kKernels{
    {"reverse", run_one<reverse_kernel<true>>},
    {"reverse without barrier", run_one<reverse_kernel<false>>},
    {"scale", run_one<scale_kernel<0>>},
    {"scale off by one", run_one<scale_kernel<1>>},
    {"blocks", run<blocks_kernel<true>>},
    {"blocks that write the same", run<blocks_kernel<false>>},
    {"neighbour", run_one<neighbour_kernel<true>>},
    {"neighbour without syncwarp", run_one<neighbour_kernel<false>>},
    {"barrier for all", run_one<half_barrier_kernel<true>>},
    {"barrier for half", run_one<half_barrier_kernel<false>>},
    {"shuffle after early exit", run_one<early_exit_kernel>},
    {"written first", run_one<unwritten_kernel<true>>},
    {"never written", run_one<unwritten_kernel<false>>},
    {"async copy", run_one<async_kernel<true>>},
    {"async copy without wait", run_one<async_kernel<false>>},
    {"aligned vector", run_one<vector_kernel<0>>},
    {"misaligned vector", run_one<vector_kernel<1>>},
    {"sum in any order", run_one<ordered_sum_kernel>},
};

}  // namespace

std::string run_planted(const std::string& name, int n, float* result) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  const auto x = host::allocate(bytes), y = host::allocate(bytes);
  auto* values = reinterpret_cast<float*>(x.get());
  for (int i = 0; i < n; ++i) values[i] = 1.0f / static_cast<float>(3 + i * i);
  host::host_wrote(x.get(), bytes);
  host::take_problems();
  kKernels.at(name)(reinterpret_cast<float*>(y.get()), values, n);
  if (result != nullptr) std::memcpy(result, y.get(), bytes);
  return host::take_problems();
}

}  // namespace fp::cuda::planted
