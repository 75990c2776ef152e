// AdamW and the sums of squares behind the gradient norm, on flat f32 buffers.
//
// adamw: one pass; a thread handles 4 elements of each buffer. Per element 16 bytes are read and 12 written, 2 more
// with the bf16 copy. sum_squares: a block handles one piece of a segment (half a megabyte) and writes one double; a
// second kernel adds the pieces of a segment in order. The table of pieces stays on the device while the segments are
// the same.
#include <cmath>

#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda/ops/cuda_ops.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256;

struct AdamWFactors {
  float lr, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, decay, m_correction, v_correction, grad_scale;
};

AdamWFactors factors(const AdamW& a) {
  const auto f = [](double x) { return static_cast<float>(x); };
  const auto step = static_cast<double>(a.step);
  return {f(a.lr),
          f(a.beta1),
          f(a.beta2),
          f(1.0 - a.beta1),
          f(1.0 - a.beta2),
          f(a.eps),
          f(a.weight_decay),
          f(1.0 / (1.0 - std::pow(a.beta1, step))),
          f(1.0 / (1.0 - std::pow(a.beta2, step))),
          f(a.grad_scale)};
}

template <int N>
__global__ void adamw_kernel(float* param, float* m, float* v, const float* grad, bf16* weights, int64_t count,
                             AdamWFactors a) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (first >= count) return;
  auto p = load<N>(param + first), m1 = load<N>(m + first), m2 = load<N>(v + first);
  const auto g = load<N>(grad + first);
  Vec<bf16, N> w;
  for (int i = 0; i < N; ++i) {
    const float gradient = g.at[i] * a.grad_scale;
    m1.at[i] = a.beta1 * m1.at[i] + a.one_minus_beta1 * gradient;
    m2.at[i] = a.beta2 * m2.at[i] + a.one_minus_beta2 * gradient * gradient;
    const float step = m1.at[i] * a.m_correction / (sqrtf(m2.at[i] * a.v_correction) + a.eps);
    p.at[i] -= a.lr * (step + a.decay * p.at[i]);
    w.at[i] = from_float<bf16>(p.at[i]);
  }
  store<N>(param + first, p);
  store<N>(m + first, m1);
  store<N>(v + first, m2);
  if (weights != nullptr) store<N>(weights + first, w);
}

template <int N>
__global__ void square_piece_kernel(double* partial, const float* x, const Segment* pieces) {
  const Segment piece = pieces[blockIdx.x];
  const float* from = x + piece.offset;
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < piece.count; i += kThreads * N) {
    float square = 0.0f;  // short blocks are summed in f32, their sums in double
    for (int j = 0; j < N; ++j) {
      const int64_t at = i + int64_t{j} * kThreads;
      const float value = at < piece.count ? from[at] : 0.0f;
      square += value * value;
    }
    sum += square;
  }
  sum = block_fold<Sum>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// A warp adds the pieces of one segment, lane by lane in order.
__global__ void square_segment_kernel(float* sums, const double* partial, const Segment* ranges) {
  const Segment range = ranges[blockIdx.x];
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < range.count; i += kWarp) sum += partial[range.offset + i];
  sum = warp_fold<Sum>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = static_cast<float>(sum);
}

}  // namespace

void PieceTable::prepare(Device& device, std::span<const Segment> segments) {
  if (std::equal(segments.begin(), segments.end(), known_.begin(), known_.end(),
                 [](const Segment& a, const Segment& b) { return a.offset == b.offset && a.count == b.count; }))
    return;
  std::vector<Segment> table;
  for (int64_t piece = 1 << 17;; piece *= 2) {
    table.clear();
    std::vector<Segment> ranges;
    for (const Segment& s : segments) {
      ranges.push_back({static_cast<int64_t>(table.size()), (s.count + piece - 1) / piece});
      for (int64_t i = 0; i < s.count; i += piece) table.push_back({s.offset + i, std::min(piece, s.count - i)});
    }
    pieces_ = static_cast<int64_t>(table.size());
    table.insert(table.end(), ranges.begin(), ranges.end());
    if (table.size() * sizeof(Segment) <= kBytes) break;
    FP_CHECK(ranges.size() * sizeof(Segment) < kBytes / 2, "sums of squares of {} segments", ranges.size());
  }
  device.copy_in(memory_.get(), table.data(), table.size() * sizeof(Segment));
  known_.assign(segments.begin(), segments.end());
}

}  // namespace cuda

void CudaOps::run(const calls::SumSquares& call) {
  if (call.segments.empty()) return;
  pieces_.prepare(device_, call.segments);
  auto* partial = reinterpret_cast<double*>(device_.scratch(static_cast<size_t>(pieces_.count()) * sizeof(double)));
  if (pieces_.count() > 0)
    cuda::launch<cuda::square_piece_kernel<4>>({static_cast<unsigned>(pieces_.count()), cuda::kThreads}, stream(),
                                               partial, static_cast<const float*>(call.x.ptr<float>()),
                                               pieces_.pieces());
  cuda::launch<cuda::square_segment_kernel>({static_cast<unsigned>(call.segments.size()), cuda::kWarp}, stream(),
                                            call.sums.ptr<float>(), static_cast<const double*>(partial),
                                            pieces_.ranges());
}

void CudaOps::run(const calls::AdamW& call) {
  const int64_t n = call.param.elements();
  if (call.sums.gradient) run(calls::PieceSums{call.sums.gradient, call.grad});
  if (call.sums.bits) run(calls::Zero{call.sums.bits});
  if (n == 0) return;
  bf16* copy = call.weights ? call.weights.ptr<bf16>() : nullptr;
  const bool wide =
      n % 4 == 0 && cuda::widest<float>(4, {call.param.data, call.m.data, call.v.data, call.grad.data, copy}) > 1;
  const auto grid = [](int64_t threads) {
    return cuda::Grid{static_cast<unsigned>((threads + cuda::kThreads - 1) / cuda::kThreads), cuda::kThreads};
  };
  const auto update = [&]<int N>() {
    cuda::launch<cuda::adamw_kernel<N>>(grid((n + N - 1) / N), stream(), call.param.ptr<float>(), call.m.ptr<float>(),
                                        call.v.ptr<float>(), static_cast<const float*>(call.grad.ptr<float>()), copy, n,
                                        cuda::factors(call.options));
  };
  wide ? update.operator()<4>() : update.operator()<1>();
  if (!call.sums.bits) return;
  // In passes of their own: only a save asks for these sums, and reading is fast compared with it.
  const Tensor* const written[] = {&call.param, &call.m, &call.v, &call.weights};
  for (int64_t i = 0; i < 4; ++i)
    if (*written[i]) run(calls::BitSums{call.sums.bits.slice(i, 1).reshaped({2}), *written[i]});
}

}  // namespace fp
