// The backward pass of attention in tiles of queries and keys. With o and lse over all keys, every pair of tiles is a
// call of its own, whose gradients are parts of the whole ones: these parts, in the type of the gradients, are added up
// in f32. Pairs of which no query sees a key are left out.
#include <algorithm>
#include <vector>

#include "cuda/ops/cuda_ops.h"
#include "ops/calls/pairs.h"

namespace fp::cuda {
namespace {

// Returns rows [first, first + count) of one sample of t [B,T,...].
Tensor rows_of(Tensor t, int64_t sample, int64_t first, int64_t count) {
  if (!t) return t;
  const int64_t row = t.shape.elements() / (t.shape[0] * t.shape[1]), skipped = sample * t.shape[1] + first;
  t.data = static_cast<std::byte*>(t.data) + static_cast<size_t>(skipped * row) * size_of(t.dtype);
  t.shape[0] = 1, t.shape[1] = count;
  return t;
}

// The tensors in scratch: a tile's lse and gradients, and the f32 sums of a tile of queries and of a sample's keys.
class Parts {
 public:
  Parts(const AttentionCall& c, int64_t tokens, std::byte* scratch) : tile(tokens), begin_(scratch), end_(scratch) {
    const Shape queries{1, tile, c.heads(), c.head_dim()}, keys{1, tile, c.kv_heads(), c.head_dim()};
    const Shape all_keys{1, c.keys(), c.kv_heads(), c.head_dim()};
    lse = take(DType::f32, {1, c.heads(), tile});
    dq = take(c.q.dtype, queries), dk = take(c.q.dtype, keys), dv = take(c.q.dtype, keys);
    dq_sum = take(DType::f32, queries), dk_sum = take(DType::f32, all_keys), dv_sum = take(DType::f32, all_keys);
  }
  std::byte* end() const { return end_; }
  size_t bytes() const { return static_cast<size_t>(end_ - begin_); }

  int64_t tile;  // tokens
  Tensor lse, dq, dk, dv, dq_sum, dk_sum, dv_sum;

 private:
  Tensor take(DType type, const Shape& shape) {
    const Tensor t(end_, type, shape);
    end_ += (t.bytes() + 255) / 256 * 256;
    return t;
  }
  std::byte *begin_, *end_;
};

// An address for calls that are only asked about.
std::byte* no_memory() { return reinterpret_cast<std::byte*>(uintptr_t{1} << 60); }

class TiledBackward final : public AttentionKernel {
 public:
  TiledBackward(std::unique_ptr<AttentionKernel> inner, CudaOps& ops, size_t limit)
      : inner_(std::move(inner)), ops_(ops), limit_(limit) {}

  std::string name() const override { return inner_->name(); }

  std::string refuses(const AttentionCall& c, AttentionPass pass) const override {
    const std::string why = inner_->refuses(c, pass);
    if (why.empty() || pass == AttentionPass::forward) return why;
    return supports_tiles(c) ? "" : why;
  }

  std::string description(const AttentionCall& c, AttentionPass pass) const override {
    if (inner_->refuses(c, pass).empty()) return inner_->description(c, pass);
    return fmt::format("{} in tiles of {} tokens", name(), tile_of(c));
  }

  size_t scratch_bytes(const AttentionCall& c, AttentionPass pass) const override {
    if (inner_->refuses(c, pass).empty()) return inner_->scratch_bytes(c, pass);
    const Parts parts(c, tile_of(c), no_memory());
    size_t most = 0;
    for (const AttentionCall& pair : visible_pairs_of(c, parts, 0))
      most = std::max(most, inner_->scratch_bytes(pair, pass));
    return parts.bytes() + most;
  }

  void forward(Device& device, const AttentionCall& c, std::byte* scratch) override {
    inner_->forward(device, c, scratch);
  }

  void backward(Device& device, const AttentionCall& c, std::byte* scratch) override {
    if (inner_->refuses(c, AttentionPass::backward).empty()) return inner_->backward(device, c, scratch);
    const Parts parts(c, tile_of(c), scratch);
    for (int64_t b = 0; b < c.batch(); ++b) {
      device.zero(parts.dk_sum.data, parts.dk_sum.bytes());
      device.zero(parts.dv_sum.data, parts.dv_sum.bytes());
      for (int64_t i = 0; i < c.queries(); i += parts.tile) backward_of_queries(device, c, parts, b, i);
      finish(rows_of(c.dk, b, 0, c.keys()), parts.dk_sum, c.dkv_write);
      finish(rows_of(c.dv, b, 0, c.keys()), parts.dv_sum, c.dkv_write);
    }
  }

 private:
  int64_t tile_of(const AttentionCall& c) const {
    return tile_tokens(limit_, {1, c.queries(), c.keys(), c.heads(), c.kv_heads(), c.head_dim()});
  }

  // Returns the call on the queries from i on and the keys from j on, of one sample.
  static AttentionCall pair_at(const AttentionCall& c, const Parts& parts, int64_t sample, int64_t i, int64_t j) {
    const int64_t queries = std::min(parts.tile, c.queries() - i), keys = std::min(parts.tile, c.keys() - j);
    AttentionCall pair = c;
    for (Tensor* t : {&pair.q, &pair.o, &pair.d_o, &pair.doc_start}) *t = rows_of(*t, sample, i, queries);
    for (Tensor* t : {&pair.k, &pair.v}) *t = rows_of(*t, sample, j, keys);
    if (c.sample_ids) pair.sample_ids = c.sample_ids.slice(sample, 1);
    pair.lse = Tensor(parts.lse.data, DType::f32, {1, c.heads(), queries});
    pair.dq = rows_of(parts.dq, 0, 0, queries);
    pair.dk = rows_of(parts.dk, 0, 0, keys), pair.dv = rows_of(parts.dv, 0, 0, keys);
    pair.dq_write = pair.dkv_write = Write::set;
    pair.spec.q_offset += i, pair.spec.k_offset += j;
    return pair;
  }

  static bool is_visible(const AttentionCall& c) { return visible_pairs(c.spec, c.heads(), c.queries(), c.keys()) > 0; }

  static std::vector<AttentionCall> visible_pairs_of(const AttentionCall& c, const Parts& parts, int64_t sample) {
    std::vector<AttentionCall> pairs;
    for (int64_t i = 0; i < c.queries(); i += parts.tile)
      for (int64_t j = 0; j < c.keys(); j += parts.tile)
        if (const AttentionCall pair = pair_at(c, parts, sample, i, j); is_visible(pair)) pairs.push_back(pair);
    return pairs;
  }

  bool supports_tiles(const AttentionCall& c) const {
    const Parts parts(c, tile_of(c), no_memory());
    for (int64_t b = 0; b < c.batch(); ++b)
      for (const AttentionCall& pair : visible_pairs_of(c, parts, b))
        if (!inner_->refuses(pair, AttentionPass::backward).empty()) return false;
    return true;
  }

  void backward_of_queries(Device& device, const AttentionCall& c, const Parts& parts, int64_t sample, int64_t i) {
    const int64_t queries = std::min(parts.tile, c.queries() - i);
    const Tensor lse = c.lse.slice(sample, 1).reshaped({c.heads(), c.queries()});
    ops_.run_part(calls::CopyColumns{.y = Tensor(parts.lse.data, DType::f32, {c.heads(), queries}),
                                     .y_first = 0,
                                     .x = lse,
                                     .x_first = i,
                                     .count = queries,
                                     .write = Write::set});
    device.zero(parts.dq_sum.data, parts.dq_sum.bytes());
    const Tensor dq_sum = rows_of(parts.dq_sum, 0, 0, queries);
    for (int64_t j = 0; j < c.keys(); j += parts.tile) {
      const AttentionCall pair = pair_at(c, parts, sample, i, j);
      if (!is_visible(pair)) continue;
      inner_->backward(device, pair, parts.end());
      ops_.run_part(calls::Accumulate{dq_sum, pair.dq});
      ops_.run_part(calls::Accumulate{rows_of(parts.dk_sum, 0, j, pair.keys()), pair.dk});
      ops_.run_part(calls::Accumulate{rows_of(parts.dv_sum, 0, j, pair.keys()), pair.dv});
    }
    finish(rows_of(c.dq, sample, i, queries), dq_sum, c.dq_write);
  }

  void finish(const Tensor& gradient, const Tensor& sum, Write write) {
    if (write == Write::add)
      ops_.run_part(calls::Accumulate{gradient, sum});
    else
      ops_.run_part(calls::Cast{gradient, sum});
  }

  std::unique_ptr<AttentionKernel> inner_;
  CudaOps& ops_;
  size_t limit_;
};

}  // namespace

std::unique_ptr<AttentionKernel> make_tiled_backward(std::unique_ptr<AttentionKernel> inner, CudaOps& ops,
                                                     size_t score_gradient_limit) {
  return std::make_unique<TiledBackward>(std::move(inner), ops, score_gradient_limit);
}

}  // namespace fp::cuda
