// Gathers rows of the embedding tables, and adds up their gradients.
//
// Forward: y[m] = scale * table[ids[m]] + positions_table[positions[m]], with a block for each token or range of its
// columns; reads one or two rows and writes one. Rows of id or position -1 are not read.
// Backward: dtable[id] += scale * dy[m] for the tokens m of each id, in token order and without atomics, 8192 tokens at
// a time. The first kernel sorts these by (id, token): the place of a token is the number of tokens before it in that
// order, which its threads count. The second has a block for each place or range of columns; where an id other than -1
// begins, the block adds up the rows of all tokens of that id. dy is read once, rows of dtable in use are read and
// written once for each 8192 tokens.
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"

namespace fp {
namespace cuda {
namespace {

template <class T>
struct EmbeddingArgs {
  T* y;
  const int32_t* ids;
  const T* table;
  const int32_t* positions;  // may be null
  const T* positions_table;
  int cols;
  float scale;
};

// Loads N elements of a row; zeros for row -1.
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_row(const T* table, int32_t row, int cols, int c) {
  return row < 0 ? Vec<T, N>{} : load<N>(table + int64_t{row} * cols + c);
}

template <class T, int N>
__global__ void embedding_kernel(EmbeddingArgs<T> a) {
  const int c = row_item() * N;
  if (c >= a.cols) return;
  const int64_t token = blockIdx.x;
  Vec<T, N> v = load_row<N>(a.table, a.ids[token], a.cols, c), place{};
  if (a.positions != nullptr) place = load_row<N>(a.positions_table, a.positions[token], a.cols, c);
  for (int i = 0; i < N; ++i) v.at[i] = from_float<T>(a.scale * to_float(v.at[i]) + to_float(place.at[i]));
  store<N>(a.y + token * a.cols + c, v);
}

using IdToken = Vec<int32_t, 2>;  // (id, token)

constexpr int kSortThreads = 256, kSharers = 16, kSorted = kSortThreads / kSharers;

// Writes the tokens sorted by (id, token). kSharers adjacent lanes share the counting for a token: of those before it,
// the ids up to its own, of the others those below.
template <int N>
__global__ void sort_tokens_kernel(IdToken* sorted, const int32_t* ids, int tokens) {
  const int place = static_cast<int>(blockIdx.x) * kSorted + static_cast<int>(threadIdx.x) / kSharers;
  const int token = place < tokens ? place : tokens - 1, share = static_cast<int>(threadIdx.x) % kSharers;
  const int32_t id = ids[token];
  int before = 0;
  // Adds up signs of differences: two instructions for an id, where a comparison takes three in a chain.
  const auto count_below = [&](int32_t bound, int j) {
    const auto others = load<N>(ids + j);
    for (int i = 0; i < N; ++i) before += static_cast<int>(static_cast<uint32_t>(others.at[i] - bound) >> 31);
  };
  const int whole = tokens / N * N, whole_before = token / N * N;
  int j = share * N;
#pragma unroll 4
  for (; j < whole_before; j += kSharers * N) count_below(id + 1, j);
#pragma unroll 4
  for (; j < whole; j += kSharers * N) count_below(id, j);
  for (j = whole_before + share; j < token; j += kSharers) before += ids[j] == id ? 1 : 0;
  for (j = whole + share; j < tokens; j += kSharers) before += ids[j] < id ? 1 : 0;
  before = warp_fold<Sum>(before, kSharers);
  if (place < tokens && share == 0) sorted[before] = {{id, token}};
}

template <class T, int N>
__global__ void embedding_backward_kernel(float* dtable, const T* dy, const IdToken* sorted, int tokens, int cols,
                                          float scale) {
  const auto at_place = [&](int i) { return i < tokens ? load<2>(&sorted[i].at[0]) : IdToken{{-1, 0}}; };
  const int first = static_cast<int>(blockIdx.x), c = row_item() * N;
  const IdToken own = at_place(first);
  const int32_t id = own.at[0];
  if (id < 0 || (first > 0 && sorted[first - 1].at[0] == id) || c >= cols) return;
  const auto row_of = [&](const IdToken& t) { return load<N>(dy + int64_t{t.at[1]} * cols + c); };
  float* const to = dtable + int64_t{id} * cols + c;
  float sum[N];
  const auto add = [&](const Vec<T, N>& row) {
    for (int i = 0; i < N; ++i) sum[i] += scale * to_float(row.at[i]);
  };
  load_floats(sum, to);
  bool more = at_place(first + 1).at[0] == id;
  add(row_of(own));
  constexpr int kBatch = 8;  // rows in flight; an id of one token, as most are, pays nothing for them
  for (int at = first + 1; more; at += kBatch) {
    IdToken next[kBatch];
    Vec<T, N> rows[kBatch];
    int used = 0;
#pragma unroll
    for (int r = 0; r < kBatch; ++r) next[r] = at_place(at + r);
#pragma unroll
    for (int r = 0; r < kBatch; ++r) {
      if (next[r].at[0] != id) continue;
      rows[r] = row_of(next[r]);
      ++used;
    }
#pragma unroll
    for (int r = 0; r < kBatch; ++r)
      if (r < used) add(rows[r]);
    more = used == kBatch;
  }
  store_floats(to, sum);
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::Embedding& call) {
  if (call.y.elements() == 0) return;
  cuda::by_type(call.y.dtype, [&]<class T>(T) {
    const cuda::EmbeddingArgs<T> args{call.y.ptr<T>(),
                                      call.ids.ptr<int32_t>(),
                                      call.table.ptr<T>(),
                                      call.positions ? call.positions.ptr<int32_t>() : nullptr,
                                      call.positions ? call.positions_table.ptr<T>() : nullptr,
                                      static_cast<int>(call.y.cols()),
                                      static_cast<float>(call.scale)};
    cuda::by_width<T>(call.y.cols(), {call.y.data, call.table.data, call.positions_table.data}, [&](auto width) {
      cuda::launch<cuda::embedding_kernel<T, width.value>>(cuda::row_grid(call.y.rows(), call.y.cols() / width.value),
                                                           stream(), args);
    });
  });
}

void CudaOps::run(const calls::EmbeddingBackward& call) {
  if (call.dy.elements() == 0) return;
  constexpr int64_t kPiece = 8192;
  auto* sorted = reinterpret_cast<cuda::IdToken*>(device_.scratch(kPiece * sizeof(cuda::IdToken)));
  for (int64_t first = 0; first < call.dy.rows(); first += kPiece) {
    const auto tokens = static_cast<int>(std::min(kPiece, call.dy.rows() - first));
    const cuda::Grid grid{static_cast<unsigned>((tokens + cuda::kSorted - 1) / cuda::kSorted), cuda::kSortThreads};
    cuda::by_width<int32_t>(cuda::kWide<int32_t>, {call.ids.data}, [&](auto width) {
      cuda::launch<cuda::sort_tokens_kernel<width.value>>(grid, stream(), sorted, call.ids.ptr<int32_t>() + first,
                                                          tokens);
    });
    cuda::by_type(call.dy.dtype, [&]<class T>(T) {
      // 16 bytes of dtable per thread, of which more are moved than of dy.
      cuda::by_width<float>(call.dy.cols(), {call.dy.data, call.dtable.data}, [&](auto width) {
        cuda::launch<cuda::embedding_backward_kernel<T, width.value>>(
            cuda::row_grid(tokens, call.dy.cols() / width.value), stream(), call.dtable.ptr<float>(),
            call.dy.ptr<T>() + first * call.dy.cols(), sorted, tokens, static_cast<int>(call.dy.cols()),
            static_cast<float>(call.scale));
      });
    });
  }
}

}  // namespace fp
