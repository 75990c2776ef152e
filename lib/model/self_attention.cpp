#include "model/self_attention.h"

#include <utility>

#include "ops/calls/pairs.h"

namespace fp {
namespace {

// Views [B,T,heads,d] as [B*T,heads,d].
Tensor by_token(const Tensor& t) { return t.reshaped({t.shape[0] * t.shape[1], t.shape[2], t.shape[3]}); }
// Views [..., d] as one row for each head of each token.
Tensor by_head(const Tensor& t) {
  const int64_t d = t.shape[t.shape.rank() - 1];
  return t.reshaped({t.elements() / d, d});
}

void norm_heads(const ModelEnv& e, const Tensor& y, HeadNormState& s, const NormIds& ids) {
  s.stats = e.alloc_f32({by_head(y).shape[0], 2});
  e.norm(by_head(y), {}, s.stats, by_head(s.x), {}, ids);
}

}  // namespace

AttentionSpec SelfAttention::spec(bool training) const {
  AttentionSpec s = env_->arch->attention(layer_);
  s.first_head = env_->first_head;
  if (training) s.dropout = env_->dropout(Purpose::attention_dropout, env_->arch->dropout_attention, layer_);
  return s;
}

HeadExchange::Place SelfAttention::exchange_of(const MicroBatch& batch) const {
  return {env_->ops, env_->arena, env_->sequence, batch.share};
}

void SelfAttention::project(const MicroBatch& batch, SelfAttentionState& s, KeyValues& kv, const RowFlow& flow) const {
  const ModelEnv& e = *env_;
  const HeadLayout& core = e.core;
  const RowPieces& p = flow.pieces;
  ArenaTensor qkv = e.alloc({s.x->shape[0], e.heads.columns()});
  for (int64_t i = 0; i < p.count; ++i) {
    flow.before(i);
    e.linear(p.all_of(qkv, i), p.all_of(s.x, i), ids().qkv);
    e.progress();
  }
  qkv = e.in_token_order(std::move(qkv), p);
  qkv = e.exchange.qkv_to_core(exchange_of(batch), std::move(qkv));
  s.q = e.alloc({batch.samples(), batch.length(), core.heads, core.head_dim});
  ArenaTensor both = kv.allocate(batch.samples(), batch.length());
  const auto [k, v] = KeyValues::pair_of(both);
  split_heads(qkv, by_token(s.q), by_token(k), by_token(v), batch.positions, s);
  kv.put(batch.chunk, std::move(both));
}

void SelfAttention::split_heads(const Tensor& qkv, const Tensor& q, const Tensor& k, const Tensor& v,
                                const Tensor& positions, SelfAttentionState& s) const {
  const ModelEnv& e = *env_;
  if (!has_head_norms()) return e.ops->split_qkv({q, k, v, qkv, e.core, e.rope, positions});
  s.q_norm.x = e.alloc(q.shape);
  s.k_norm.x = e.alloc(k.shape);
  e.ops->split_qkv({s.q_norm.x, s.k_norm.x, v, qkv, e.core});
  norm_heads(e, q, s.q_norm, ids().q_norm);
  norm_heads(e, k, s.k_norm, ids().k_norm);
  for (const Tensor& heads : {q, k}) e.ops->rope({heads, heads, e.rope, positions});
}

void SelfAttention::split_heads_backward(const Tensor& d_qkv, const Tensor& d_q, const Tensor& d_k, const Tensor& d_v,
                                         const Tensor& positions, SelfAttentionState& s) const {
  const ModelEnv& e = *env_;
  if (!has_head_norms()) return e.ops->split_qkv_backward({d_qkv, d_q, d_k, d_v, e.core, e.rope, positions});
  const auto through = [&](const Tensor& dx, HeadNormState& n, const NormIds& norm) {
    n.dy = e.alloc(dx.shape);
    e.ops->rope({n.dy, dx, e.rope, positions, true});
    e.norm_backward_input(by_head(dx), by_head(n.dy), by_head(n.x), n.stats, norm, Write::set);
  };
  through(d_q, s.q_norm, ids().q_norm);
  through(d_k, s.k_norm, ids().k_norm);
  e.ops->split_qkv_backward({d_qkv, d_q, d_k, d_v, e.core});
}

AttentionSpec SelfAttention::spec_of_visit(const MicroBatch& batch, size_t chunk) const {
  AttentionSpec s = spec(batch.training);
  s.q_offset = batch.share.start;
  s.k_offset = static_cast<int64_t>(chunk) * batch.length();
  return s;
}

std::vector<size_t> SelfAttention::visible_chunks(const MicroBatch& batch) const {
  std::vector<size_t> chunks{batch.chunk};
  for (size_t c = batch.chunk; c-- > 0;)
    if (visible_pairs(spec_of_visit(batch, c), env_->core.heads, batch.length(), batch.length()) > 0)
      chunks.push_back(c);
  return chunks;
}

void SelfAttention::attend(const MicroBatch& batch, SelfAttentionState& s, KeyValues& kv) const {
  const ModelEnv& e = *env_;
  const std::vector<size_t> chunks = visible_chunks(batch);
  ArenaTensor sum, lse;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (i + 1 < chunks.size()) kv.fetch(chunks[i + 1], false);
    ArenaTensor part = e.alloc(s.q->shape);
    ArenaTensor part_lse = e.alloc_f32({batch.samples(), e.core.heads, batch.length()});
    const auto [k, v] = kv.on_device(chunks[i]);
    e.ops->attention({part, part_lse, s.q, k, v, batch.doc_start, batch.sample_ids, spec_of_visit(batch, chunks[i])});
    kv.release(chunks[i]);
    if (i > 0) {
      e.ops->attention_merge({sum, lse, part, part_lse});
      continue;
    }
    lse = std::move(part_lse);
    if (chunks.size() == 1)
      sum = std::move(part);
    else
      add_part(e, sum, std::move(part));
  }
  s.o = sum->dtype == s.q->dtype ? std::move(sum) : rounded(e, std::move(sum));
  s.lse = std::move(lse);
  if (batch.share.tokens == batch.length()) return;
  ArenaTensor o = e.alloc({batch.samples() * batch.length(), e.core.heads * e.core.head_dim});
  e.ops->copy({o, s.o});
  s.o_rows = e.exchange.q_to_rows(exchange_of(batch), std::move(o));
}

Tensor SelfAttention::o_rows(const SelfAttentionState& s) const {
  const int64_t columns = env_->core.heads * env_->core.head_dim;
  return s.o_rows ? *s.o_rows : s.o->reshaped({s.o->elements() / columns, columns});
}

ArenaTensor SelfAttention::project_output(const SelfAttentionState& s, const RowFlow& flow) const {
  const ModelEnv& e = *env_;
  const RowPieces& p = flow.pieces;
  const Tensor o = o_rows(s);
  ArenaTensor y = e.alloc({o.shape[0], e.arch->hidden});
  // Adjacent rows of a piece are in two places on both sides only if there are several pieces.
  const int64_t own = p.count > 1 ? p.own : p.rows;
  for (int64_t i = 0; i < p.count; ++i) {
    for (int64_t first = 0; first < p.rows; first += own)
      e.linear_part(y->slice(i * p.rows + first, own), o.slice(first * p.count + i * own, own), ids().proj);
    e.progress();
    if (flow.after) flow.after(i, y);
  }
  return y;
}

ArenaTensor SelfAttention::forward(const MicroBatch& batch, SelfAttentionState& s, KeyValues& kv,
                                   const RowFlow& flow) const {
  project(batch, s, kv, flow);
  attend(batch, s, kv);
  return project_output(s, flow);
}

ArenaTensor SelfAttention::attend_backward(const Tensor& d_o, const MicroBatch& batch, SelfAttentionState& s,
                                           KeyValues& kv) const {
  const ModelEnv& e = *env_;
  const std::vector<size_t> chunks = visible_chunks(batch);
  ArenaTensor d_q, d_own;
  for (size_t i = 0; i < chunks.size(); ++i) {
    kv.fetch(i + 1 < chunks.size() ? chunks[i + 1] : batch.chunk,
             true);  // after the last visit, its own sum is complete
    ArenaTensor part = e.alloc(s.q->shape), d_both = kv.allocate(batch.samples(), batch.length());
    const auto [k, v] = kv.on_device(chunks[i]);
    const auto [d_k, d_v] = KeyValues::pair_of(d_both);
    e.ops->attention_backward({part, d_k, d_v, d_o, s.q, k, v, s.o, s.lse, batch.doc_start, batch.sample_ids,
                               spec_of_visit(batch, chunks[i])});
    if (chunks.size() == 1)
      d_q = std::move(part);
    else
      add_part(e, d_q, std::move(part));
    if (i == 0) {
      d_own = std::move(d_both);
    } else {
      kv.release(chunks[i]);
      kv.add_gradients(chunks[i], std::move(d_both));
    }
  }
  if (d_q->dtype != s.q->dtype) d_q = rounded(e, std::move(d_q));
  d_own = kv.finish(batch.chunk, std::move(d_own));
  ArenaTensor d_qkv = e.alloc({batch.samples() * batch.length(), e.core.columns()});
  const auto [d_k, d_v] = KeyValues::pair_of(d_own);
  split_heads_backward(d_qkv, by_token(d_q), by_token(d_k), by_token(d_v), batch.positions, s);
  return d_qkv;
}

ArenaTensor SelfAttention::backward_input(ArenaTensor d_out, const MicroBatch& batch, SelfAttentionState& s,
                                          KeyValues& kv) const {
  const ModelEnv& e = *env_;
  s.d_out = std::move(d_out);
  ArenaTensor d_o = e.alloc({s.d_out->shape[0], e.heads.heads * e.heads.head_dim});
  e.linear_backward_input(d_o, s.d_out, ids().proj);
  d_o = e.exchange.q_to_core(exchange_of(batch), std::move(d_o));
  ArenaTensor d_qkv = attend_backward(d_o->reshaped(s.o->shape), batch, s, kv);
  d_o.reset();
  s.d_qkv = e.in_piece_order(e.exchange.qkv_to_rows(exchange_of(batch), std::move(d_qkv)), e.pieces(batch));
  ArenaTensor dx = e.alloc({s.d_qkv->shape[0], e.arch->hidden});
  e.linear_backward_input(dx, s.d_qkv, ids().qkv);
  return dx;
}

void SelfAttention::release(SelfAttentionState& s) const {
  for (ArenaTensor* used : {&s.q, &s.lse}) used->reset();
  if (s.o_rows) s.o.reset();
}

void SelfAttention::backward_weight(SelfAttentionState& s) const {
  env_->linear_backward_weight(s.d_out, o_rows(s), ids().proj);
  env_->linear_backward_weight(s.d_qkv, s.x, ids().qkv);
  if (!has_head_norms()) return;
  const auto add_gain = [&](const HeadNormState& n, const NormIds& norm) {
    env_->norm_backward_weight(by_head(n.dy), by_head(n.x), n.stats, norm);
  };
  add_gain(s.q_norm, ids().q_norm);
  add_gain(s.k_norm, ids().k_norm);
}

ArenaTensor SelfAttention::decode(SelfAttentionState& s, const Tensor& positions, int64_t past, const Tensor& k_cache,
                                  const Tensor& v_cache) const {
  const ModelEnv& e = *env_;
  const HeadLayout& heads = e.core;
  const int64_t n = s.x->shape[0], total = past + n;
  const ArenaTensor qkv = e.alloc({n, heads.columns()});
  e.linear(qkv, s.x, ids().qkv);
  s.q = e.alloc({1, n, heads.heads, heads.head_dim});
  split_heads(qkv, by_token(s.q), k_cache.slice(past, n), v_cache.slice(past, n), positions, s);
  const auto seen = [&](const Tensor& cache) {
    return cache.slice(0, total).reshaped({1, total, heads.kv_heads, heads.head_dim});
  };
  s.o = e.alloc(s.q->shape);
  s.lse = e.alloc_f32({1, heads.heads, n});
  AttentionSpec attention = spec(false);
  attention.q_offset = past;
  e.ops->attention({s.o, s.lse, s.q, seen(k_cache), seen(v_cache), {}, {}, attention});
  const int64_t rows = s.x->shape[0];
  return project_output(s, {{1, rows, rows, 0}, {}, {}});
}

}  // namespace fp
