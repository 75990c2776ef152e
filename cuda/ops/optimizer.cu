// The updates of optimizers and the sums of squares behind the gradient norm, on flat f32 buffers.
//
// Updates: one pass; a thread handles 4 elements of each buffer. AdamW reads 16 bytes per element and writes 12, 2 more
// with the bf16 copy. sum_squares: a block handles one piece of a segment (half a megabyte) and writes one double; a
// second kernel adds the pieces of a segment in order. The table of pieces stays on the device while the segments are
// the same.
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda/ops/cuda_ops.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256;

struct ScalarMath {
  __device__ static float sqrt(float x) { return sqrtf(x); }
  __device__ static float sign(float x) { return static_cast<float>((x > 0.0f) - (x < 0.0f)); }
};

template <int kStates>
struct States {
  float* at[kStates];
};

template <class Rule, int N>
__global__ void update_kernel(float* param, States<Rule::kStates> states, const float* grad, bf16* weights,
                              int64_t count, Rule rule) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (first >= count) return;
  auto p = load<N>(param + first);
  const auto g = load<N>(grad + first);
  Vec<float, N> s[Rule::kStates];
  for (int k = 0; k < Rule::kStates; ++k) s[k] = load<N>(states.at[k] + first);
  Vec<bf16, N> w;
  for (int i = 0; i < N; ++i) {
    float now[Rule::kStates];
    for (int k = 0; k < Rule::kStates; ++k) now[k] = s[k].at[i];
    rule.template apply<ScalarMath>(p.at[i], now, g.at[i]);
    for (int k = 0; k < Rule::kStates; ++k) s[k].at[i] = now[k];
    w.at[i] = from_float<bf16>(p.at[i]);
  }
  store<N>(param + first, p);
  for (int k = 0; k < Rule::kStates; ++k) store<N>(states.at[k] + first, s[k]);
  if (weights != nullptr) store<N>(weights + first, w);
}

template <int N>
__global__ void square_piece_kernel(double* partial, const float* x, const IndexRange* pieces) {
  const IndexRange piece = pieces[blockIdx.x];
  const float* from = x + piece.first;
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
__global__ void square_segment_kernel(float* sums, const double* partial, const IndexRange* ranges) {
  const IndexRange range = ranges[blockIdx.x];
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < range.count; i += kWarp) sum += partial[range.first + i];
  sum = warp_fold<Sum>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = static_cast<float>(sum);
}

}  // namespace

void PieceTable::prepare(Device& device, std::span<const IndexRange> segments) {
  if (std::ranges::equal(segments, known_)) return;
  std::vector<IndexRange> table;
  for (int64_t piece = 1 << 17;; piece *= 2) {
    table.clear();
    std::vector<IndexRange> ranges;
    for (const IndexRange& s : segments) {
      ranges.push_back({static_cast<int64_t>(table.size()), (s.count + piece - 1) / piece});
      for (int64_t i = 0; i < s.count; i += piece) table.push_back({s.first + i, std::min(piece, s.count - i)});
    }
    pieces_ = static_cast<int64_t>(table.size());
    table.insert(table.end(), ranges.begin(), ranges.end());
    if (table.size() * sizeof(IndexRange) <= kBytes) break;
    FP_CHECK(ranges.size() * sizeof(IndexRange) < kBytes / 2, "sums of squares of {} segments", ranges.size());
  }
  device.copy_in(memory_.get(), table.data(), table.size() * sizeof(IndexRange));
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

template <class Rule, class Call>
void CudaOps::run_update(const Call& call) {
  const int64_t n = call.param.elements();
  if (call.sums.gradient) run(calls::PieceSums{call.sums.gradient, call.grad});
  if (call.sums.bits) run(calls::Zero{call.sums.bits});
  if (n == 0) return;
  bf16* copy = call.weights ? call.weights.template ptr<bf16>() : nullptr;
  bool wide = n % 4 == 0 && cuda::widest<float>(4, {call.param.data, call.grad.data, copy}) > 1;
  cuda::States<Rule::kStates> states;
  for (size_t k = 0; k < call.states.size(); ++k) {
    states.at[k] = call.states[k].template ptr<float>();
    wide = wide && cuda::widest<float>(4, {call.states[k].data}) > 1;
  }
  const auto grid = [](int64_t threads) {
    return cuda::Grid{static_cast<unsigned>((threads + cuda::kThreads - 1) / cuda::kThreads), cuda::kThreads};
  };
  const auto update = [&]<int N>() {
    cuda::launch<cuda::update_kernel<Rule, N>>(grid((n + N - 1) / N), stream(), call.param.template ptr<float>(),
                                               states, static_cast<const float*>(call.grad.template ptr<float>()), copy,
                                               n, Rule(call.options));
  };
  wide ? update.template operator()<4>() : update.template operator()<1>();
  if (!call.sums.bits) return;
  // In passes of their own: only a save asks for these sums, and reading is fast compared with it.
  int64_t row = 0;
  const auto sum = [&](const Tensor& written) {
    if (written) run(calls::BitSums{call.sums.bits.slice(row, 1).reshaped({2}), written});
    ++row;
  };
  sum(call.param);
  for (const Tensor& state : call.states) sum(state);
  sum(call.weights);
}

#define FP_UPDATE(Rule, name) \
  void CudaOps::run(const calls::Rule& call) { run_update<rules::Rule>(call); }
FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE

}  // namespace fp
