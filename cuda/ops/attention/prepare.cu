// Precomputed inputs of fptrain's attention kernels, in scratch:
//   starts [B, Tq/16]   earliest and latest document start of 16 queries; one thread each, reads 4 bytes per query
//   delta f32 [B,H,Tq]  sum of d_o * o over a head; 8 lanes per row, reads both once
#include <algorithm>

#include "cuda/device/launch.h"
#include "cuda/device/warp.h"
#include "cuda/ops/attention/operands.h"

namespace fp::cuda {
namespace {

constexpr int kThreads = 256, kRowLanes = 8;

__global__ void document_bounds(Starts* starts, const int32_t* doc_start, int batch, int queries, int stretches) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= batch * stretches) return;
  const int first = i % stretches * kStartsPerBlock,
            end = first + kStartsPerBlock < queries ? first + kStartsPerBlock : queries;
  const int32_t* row = doc_start + int64_t{i / stretches} * queries;
  Starts all{row[first], row[first]};
  for (int j = first + 1; j < end; ++j) {
    const int32_t start = row[j];
    if (start < all.earliest) all.earliest = start;
    if (start > all.latest) all.latest = start;
  }
  starts[i] = all;
}

template <class T, int N>
__global__ void dot_rows(float* delta, const T* d_o, const T* o, int64_t rows, int queries, int heads, int head_dim) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / kRowLanes) + threadIdx.x / kRowLanes;
  const int lane = threadIdx.x % kRowLanes;
  float sum = 0;
  if (row < rows)
    for (int e = lane * N; e < head_dim; e += kRowLanes * N) {
      const auto a = load<N>(d_o + row * head_dim + e), b = load<N>(o + row * head_dim + e);
      for (int i = 0; i < N; ++i) sum += to_float(a.at[i]) * to_float(b.at[i]);
    }
  sum = warp_fold<Sum>(sum, kRowLanes);
  if (row >= rows || lane > 0) return;
  const int64_t token = row / heads, head = row % heads, sample = token / queries;
  delta[(sample * heads + head) * queries + token % queries] = sum;
}

unsigned blocks_for(int64_t items, int64_t of_a_block) {
  return static_cast<unsigned>((items + of_a_block - 1) / of_a_block);
}

int narrow(int64_t x, const char* what) {
  constexpr int64_t kLimit = int64_t{1} << 29;  // sums of three stay below 2^31
  FP_CHECK(x >= -kLimit && x < kLimit, "attention: {} is {}, expected less than 2^29", what, x);
  return static_cast<int>(x);
}

Mask make_mask(const AttentionCall& c) {
  const AttentionSpec& s = c.spec;
  Mask m;
  m.queries = narrow(c.queries(), "the number of queries");
  m.keys = narrow(c.keys(), "the number of keys");
  m.q_offset = narrow(s.q_offset, "q_offset");
  m.k_offset = narrow(s.k_offset, "k_offset");
  const int64_t end = std::max(s.q_offset + c.queries(), s.k_offset + c.keys());
  narrow(end, "the last position");
  m.window = narrow(std::min(s.window, end), "the window");  // a longer one masks nothing
  m.block = narrow(std::min(s.block, end), "the block");
  if (s.block > 0) {
    m.local_blocks = narrow(std::min(s.local_blocks, end / m.block + 1), "the local blocks");
    m.stride = narrow(s.vertical_stride, "the vertical stride");
  }
  m.first_head = s.first_head;
  m.head_step = s.head_step;
  if (c.doc_start) m.doc_start = c.doc_start.ptr<int32_t>();
  return m;
}

size_t starts_bytes(const AttentionCall& c) {
  if (!c.doc_start) return 0;
  const size_t stretches = static_cast<size_t>((c.queries() + kStartsPerBlock - 1) / kStartsPerBlock);
  return (static_cast<size_t>(c.batch()) * stretches * sizeof(Starts) + 255) / 256 * 256;
}

template <class T>
void start_delta(const Operands<T>& a, Stream stream) {
  const int64_t rows = int64_t{a.batch} * a.mask.queries * a.heads;
  const Grid grid{blocks_for(rows, kThreads / kRowLanes), kThreads};
  const auto start = [&]<int N>() {
    launch<dot_rows<T, N>>(grid, stream, a.delta, a.d_o, static_cast<const T*>(a.o), rows, a.mask.queries, a.heads,
                           a.head_dim);
  };
  a.aligned ? start.template operator()<kWide<T>>() : start.template operator()<1>();
}

}  // namespace

size_t prepared_bytes(const AttentionCall& c, bool backward) {
  return starts_bytes(c) + (backward ? static_cast<size_t>(c.batch() * c.heads() * c.queries()) * sizeof(float) : 0);
}

template <class T>
Operands<T> prepare(Device& device, const AttentionCall& c, bool backward, std::byte* scratch) {
  Operands<T> a;
  a.q = c.q.ptr<T>(), a.k = c.k.ptr<T>(), a.v = c.v.ptr<T>(), a.o = c.o.ptr<T>(), a.lse = c.lse.ptr<float>();
  a.batch = narrow(c.batch(), "the batch"), a.heads = narrow(c.heads(), "the number of heads");
  a.kv_heads = static_cast<int>(c.kv_heads()), a.head_dim = narrow(c.head_dim(), "the head size");
  narrow(c.heads() * c.head_dim(), "the width of a token");
  a.scale = static_cast<float>(c.spec.scale);
  a.mask = make_mask(c);
  a.drops = {c.spec.dropout, static_cast<float>(c.spec.dropout.p), static_cast<float>(1.0 / (1.0 - c.spec.dropout.p)),
             c.spec.first_head, c.sample_ids ? c.sample_ids.ptr<int32_t>() : nullptr};
  a.aligned = widest<T>(c.head_dim(),
                        {c.q.data, c.k.data, c.v.data, c.o.data, c.d_o.data, c.dq.data, c.dk.data, c.dv.data}) > 1;
  if (a.mask.doc_start != nullptr) {
    auto* starts = reinterpret_cast<Starts*>(scratch);
    a.mask.starts = starts;
    const int stretches = a.mask.stretches();
    launch<document_bounds>(Grid{blocks_for(int64_t{a.batch} * stretches, kThreads), kThreads}, device.compute(),
                            starts, a.mask.doc_start, a.batch, a.mask.queries, stretches);
  }
  if (!backward) return a;
  a.d_o = c.d_o.ptr<T>(), a.dq = c.dq.ptr<T>(), a.dk = c.dk.ptr<T>(), a.dv = c.dv.ptr<T>();
  a.add_dq = c.dq_write == Write::add, a.add_dkv = c.dkv_write == Write::add;
  a.delta = reinterpret_cast<float*>(scratch + starts_bytes(c));
  start_delta(a, device.compute());
  return a;
}

template Operands<bf16> prepare(Device&, const AttentionCall&, bool, std::byte*);
template Operands<float> prepare(Device&, const AttentionCall&, bool, std::byte*);

}  // namespace fp::cuda
