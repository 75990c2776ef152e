#include "model/lm_head.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace fp {

Vocabulary LmHead::vocabulary() const {
  return {env_->vocabulary.first, env_->arch->vocab, env_->masked_ids, env_->arch->logit_scale};
}

namespace {

// Rows [first, first + count) of a micro-batch: normalised hidden states, targets, and the destination of their losses.
struct Chunk {
  int64_t first;
  double scale;  // of the gradient
  Tensor n, targets, loss;
};

// Calls body(chunk) for every `spec.chunk_tokens` rows or less. A chunk has one scale, so it does not cross samples
// that have scales of their own.
template <class Body>
void for_chunks(const Tensor& n, const MicroBatch& batch, const Tensor& loss, const LossSpec& spec, Body&& body) {
  const bool scaled = !spec.sample_scales.empty();
  for (int64_t first = 0, count = 0; first < batch.rows(); first += count) {
    const int64_t tokens = batch.share.tokens, sample = first / tokens;
    const int64_t end = scaled ? (sample + 1) * tokens : batch.rows();
    count = std::min(spec.chunk_tokens, end - first);
    const double scale = scaled ? spec.scale * spec.sample_scales[static_cast<size_t>(sample)] : spec.scale;
    body(Chunk{first, scale, n.slice(first, count), batch.targets.slice(first, count), loss.slice(first, count)});
  }
}

// Returns this rank's logits of a chunk, and computes the losses of its tokens over the whole vocabulary.
ArenaTensor chunk_loss(const ModelEnv& e, const Chunk& c, const Vocabulary& vocabulary) {
  const int64_t count = c.n.shape[0], ranks = e.tokens.tensor;
  ArenaTensor logits = e.arena->alloc(e.params->compute(), {count, e.vocabulary.count}, MemoryClass::logits);
  e.ops->linear({logits, c.n, e.weight(e.ids->head.projection), {}});
  const ArenaTensor stats = e.alloc_f32({count, 3});
  e.ops->softmax_stats({stats, logits, c.targets, vocabulary});
  if (ranks > 1) {
    const ArenaTensor parts = e.alloc_f32({ranks, count, 3});
    e.tensor->all_gather(parts, stats);
    e.ops->softmax_stats_merge({stats, parts});
  }
  e.ops->cross_entropy({c.loss, stats, c.targets});
  return logits;
}

}  // namespace

ArenaTensor LmHead::final_norm(const Tensor& x, const Tensor& stats, const MicroBatch& batch) const {
  ArenaTensor n = env_->alloc({batch.rows(), x.cols()});
  env_->norm(env_->own_rows(n, batch), {}, stats, x, {}, env_->ids->head.norm);
  env_->gather(n, batch);
  return n;
}

void LmHead::forward(const Tensor& x, const MicroBatch& batch, const Tensor& loss, const LossSpec& spec) const {
  const ModelEnv& e = *env_;
  const ArenaTensor stats = e.alloc_f32({batch.local_rows(), 2}), n = final_norm(x, stats, batch);
  for_chunks(n, batch, loss, spec, [&](const Chunk& c) { chunk_loss(e, c, vocabulary()); });
}

ArenaTensor LmHead::forward_backward(ArenaTensor x, const MicroBatch& batch, const Tensor& loss,
                                     const LossSpec& spec) const {
  const ModelEnv& e = *env_;
  const ArenaTensor stats = e.alloc_f32({batch.local_rows(), 2}), n = final_norm(x, stats, batch);
  ArenaTensor dn = e.alloc(n->shape);
  const LinearIds head{e.ids->head.projection, e.ids->head.projection, -1};
  for_chunks(n, batch, loss, spec, [&](const Chunk& c) {
    const ArenaTensor logits = chunk_loss(e, c, vocabulary());
    e.ops->cross_entropy_backward({logits, c.loss, c.targets, vocabulary(), c.scale, spec.z_loss});
    e.linear_backward_input(dn->slice(c.first, c.n.shape[0]), logits, head);
    e.linear_backward_weight(logits, c.n, head);
  });
  dn = e.reduce(std::move(dn), batch);
  ArenaTensor dx = e.alloc(x->shape);
  e.norm_backward_input(dx, dn, x, stats, e.ids->head.norm, Write::set);
  e.norm_backward_weight(dn, x, stats, e.ids->head.norm);
  return dx;
}

void LmHead::logits(ArenaTensor x, std::span<float> out) const {
  const ModelEnv& e = *env_;
  const int64_t m = x->shape[0], vocab = e.arch->vocab, padded = e.arch->padded_vocab;
  FP_CHECK(e.tokens.tensor == 1 && e.tokens.sequence == 1, "logits are for one rank");
  FP_CHECK(static_cast<int64_t>(out.size()) == m * vocab, "{} rows of logits of {} ids into {} places", m, vocab,
           out.size());
  const ArenaTensor stats = e.alloc_f32({m, 2}), n = e.alloc(x->shape);
  e.norm(n, {}, stats, x, {}, e.ids->head.norm);
  const ArenaTensor rows = e.arena->alloc(e.params->compute(), {m, padded}, MemoryClass::logits);
  e.ops->linear({rows, n, e.weight(e.ids->head.projection), {}});
  const ArenaTensor rows32 = e.alloc_f32(rows->shape);
  rows->dtype == DType::f32 ? e.ops->copy({rows32, rows}) : e.ops->cast({rows32, rows});
  std::vector<float> host(static_cast<size_t>(m * padded));
  e.ops->copy_out({host.data(), rows32});
  for (int64_t i = 0; i < m; ++i) {
    const auto row = out.subspan(static_cast<size_t>(i * vocab), static_cast<size_t>(vocab));
    std::transform(host.begin() + i * padded, host.begin() + i * padded + vocab, row.begin(),
                   [&](float v) { return static_cast<float>(v * e.arch->logit_scale); });
    for (const int64_t id : e.arch->masked_ids) row[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace fp
