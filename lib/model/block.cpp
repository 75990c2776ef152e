#include "model/block.h"

#include <utility>

namespace fp {

AttentionSpec Block::attention_spec(bool training) const {
  AttentionSpec s = env_->arch->attention(layer_);
  s.first_head = env_->first_head;
  if (training) s.dropout = env_->dropout(Purpose::attention_dropout, env_->arch->dropout_attention, layer_);
  return s;
}

Dropout Block::residual_dropout() const {
  return env_->dropout(Purpose::residual_dropout, env_->arch->dropout_residual, layer_);
}
Dropout Block::ffn_dropout() const { return env_->dropout(Purpose::ffn_dropout, env_->arch->dropout_ffn, layer_); }

HeadExchange::Place Block::exchange_of(const MicroBatch& batch) const {
  return {env_->ops, env_->arena, env_->sequence, batch.share};
}

void Block::project_qkv(const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  const HeadLayout& core = e.core;
  const int64_t m = batch.rows(), tokens = batch.samples() * batch.length();
  if (!s.stats1) s.stats1 = e.alloc_f32({batch.local_rows(), 2});
  if (!s.n1) s.n1 = e.alloc({m, e.arch->hidden});
  e.norm(e.own_rows(s.n1, batch), {}, s.stats1, s.x, {}, ids().norm1);
  e.gather(s.n1, batch);
  ArenaTensor qkv = e.alloc({m, e.heads.columns()});
  e.linear(qkv, s.n1, ids().qkv);
  qkv = e.exchange.qkv_to_core(exchange_of(batch), std::move(qkv));
  s.q = e.alloc({batch.samples(), batch.length(), core.heads, core.head_dim});
  s.k = e.alloc({batch.samples(), batch.length(), core.kv_heads, core.head_dim});
  s.v = e.alloc({batch.samples(), batch.length(), core.kv_heads, core.head_dim});
  const auto flat = [tokens](const Tensor& t) { return t.reshaped({tokens, t.shape[2], t.shape[3]}); };
  e.ops->split_qkv({flat(s.q), flat(s.k), flat(s.v), qkv, core, e.rope, batch.positions});
}

void Block::attend(const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  s.o = e.alloc(s.q->shape);
  s.lse = e.alloc_f32({batch.samples(), e.core.heads, batch.length()});
  e.ops->attention({s.o, s.lse, s.q, s.k, s.v, batch.doc_start, batch.sample_ids, attention_spec(batch.training)});
  if (batch.share.tokens == batch.length()) return;
  ArenaTensor o = e.alloc({batch.samples() * batch.length(), e.core.heads * e.core.head_dim});
  e.ops->copy({o, s.o});
  s.o_rows = e.exchange.q_to_rows(exchange_of(batch), std::move(o));
}

Tensor Block::o_rows(const BlockState& s, int64_t rows) const {
  return s.o_rows ? *s.o_rows : s.o->reshaped({rows, s.o->elements() / rows});
}

void Block::mlp_input(const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  const int64_t m = batch.rows(), own = batch.local_rows(), h = e.arch->hidden;
  ArenaTensor attended = e.alloc({m, h});
  e.linear_part(attended, o_rows(s, m), ids().proj);
  attended = e.reduce(std::move(attended), batch);
  e.drop(attended, batch, residual_dropout());
  s.x1 = e.alloc({own, h});
  s.stats2 = e.alloc_f32({own, 2});
  s.n2 = e.alloc({m, h});
  e.norm(e.own_rows(s.n2, batch), s.x1, s.stats2, s.x, attended, ids().norm2);
  e.gather(s.n2, batch);
  s.u = e.alloc({m, e.arch->activation.inputs(ffn())});
  // Selective recomputation derives g from u alone, so the first computation must do the same to give equal numbers.
  if (e.arch->activation.kind == Activation::gelu && recompute_ != Recompute::selective) {
    s.g = e.alloc({m, ffn()});
    e.linear_gelu(s.g, s.u, s.n2, ids().up);
  } else {
    e.linear(s.u, s.n2, ids().up);
    activate(batch, s);
  }
}

void Block::activate(const MicroBatch& batch, BlockState& s) const {
  s.g = env_->alloc({batch.rows(), ffn()});
  env_->ops->activation({s.g, s.u, env_->arch->activation});
}

ArenaTensor Block::mlp_output(const MicroBatch& batch, BlockState& s) const {
  ArenaTensor y = env_->alloc({batch.rows(), env_->arch->hidden});
  env_->linear_part(y, s.g, ids().down);
  y = env_->reduce(std::move(y), batch);
  env_->drop(y, batch, ffn_dropout());
  env_->ops->add({y, s.x1, y});
  return y;
}

ArenaTensor Block::forward(ArenaTensor x, const MicroBatch& batch, BlockState& s) const {
  s.x = std::move(x);
  project_qkv(batch, s);
  attend(batch, s);
  mlp_input(batch, s);
  ArenaTensor y = mlp_output(batch, s);
  if (!batch.training) {
    s = {};
  } else if (recompute_ == Recompute::full) {
    ArenaTensor input = std::move(s.x);
    s = {};
    s.x = std::move(input);
  } else if (recompute_ == Recompute::selective) {
    s.n1.reset();
    s.n2.reset();
    s.g.reset();
  }
  return y;
}

void Block::recompute_activations(const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  if (recompute_ == Recompute::full) {
    project_qkv(batch, s);
    attend(batch, s);
    mlp_input(batch, s);
  } else if (recompute_ == Recompute::selective) {
    const auto again = [&](ArenaTensor& n, const Tensor& stats, const Tensor& x, const NormIds& norm) {
      n = e.alloc({batch.rows(), e.arch->hidden});
      e.norm(e.own_rows(n, batch), {}, stats, x, {}, norm);
      e.gather(n, batch);
    };
    again(s.n1, s.stats1, s.x, ids().norm1);
    again(s.n2, s.stats2, s.x1, ids().norm2);
    activate(batch, s);
  }
}

// Returns the gradient dy [M',h] of a sum over the ranks with dropout applied, gathered to [M,h] for the products.
ArenaTensor Block::whole_gradient(const Tensor& dy, const MicroBatch& batch, const Dropout& dropout) const {
  const ModelEnv& e = *env_;
  ArenaTensor d = e.alloc(dy.shape);
  e.ops->copy({d, dy});
  e.drop(d, batch, dropout);
  return e.whole(std::move(d), batch);
}

ArenaTensor Block::backward_mlp(ArenaTensor dy, const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  s.d_down = whole_gradient(dy, batch, ffn_dropout());
  s.d_u = e.alloc(s.u->shape);
  if (e.arch->activation.kind == Activation::gelu) {
    e.linear_backward_input_gelu(s.d_u, s.d_down, s.u, ids().down);
  } else {
    const ArenaTensor d_g = e.alloc(s.g->shape);
    e.linear_backward_input(d_g, s.d_down, ids().down);
    e.ops->activation_backward({s.d_u, d_g, s.u, e.arch->activation});
  }
  s.d_n2 = e.alloc({batch.rows(), e.arch->hidden});
  e.linear_backward_input(s.d_n2, s.d_u, ids().up);
  s.d_n2 = e.reduce(std::move(s.d_n2), batch);
  e.norm_backward_input(dy, s.d_n2, s.x1, s.stats2, ids().norm2, Write::add);
  return dy;
}

void Block::backward_attention(const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  const int64_t m = batch.rows(), tokens = batch.samples() * batch.length();
  ArenaTensor d_o = e.alloc({m, e.heads.heads * e.heads.head_dim});
  e.linear_backward_input(d_o, s.d_proj, ids().proj);
  d_o = e.exchange.q_to_core(exchange_of(batch), std::move(d_o));
  ArenaTensor d_qkv;
  {
    const ArenaTensor d_q = e.alloc(s.q->shape), d_k = e.alloc(s.k->shape), d_v = e.alloc(s.v->shape);
    e.ops->attention_backward({d_q, d_k, d_v, d_o->reshaped(s.o->shape), s.q, s.k, s.v, s.o, s.lse, batch.doc_start,
                               batch.sample_ids, attention_spec(true)});
    d_qkv = e.alloc({tokens, e.core.columns()});
    const auto flat = [tokens](const Tensor& t) { return t.reshaped({tokens, t.shape[2], t.shape[3]}); };
    e.ops->split_qkv_backward({d_qkv, flat(d_q), flat(d_k), flat(d_v), e.core, e.rope, batch.positions});
  }
  d_o.reset();
  s.d_qkv = e.exchange.qkv_to_rows(exchange_of(batch), std::move(d_qkv));
}

ArenaTensor Block::backward_input(ArenaTensor dy, const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  recompute_activations(batch, s);
  ArenaTensor dx = backward_mlp(std::move(dy), batch, s);
  s.d_proj = whole_gradient(dx, batch, residual_dropout());
  backward_attention(batch, s);
  s.d_n1 = e.alloc({batch.rows(), e.arch->hidden});
  e.linear_backward_input(s.d_n1, s.d_qkv, ids().qkv);
  s.d_n1 = e.reduce(std::move(s.d_n1), batch);
  e.norm_backward_input(dx, s.d_n1, s.x, s.stats1, ids().norm1, Write::add);
  for (ArenaTensor* used : {&s.q, &s.k, &s.v, &s.lse, &s.u}) used->reset();
  if (s.o_rows) s.o.reset();
  return dx;
}

void Block::backward_weight(BlockState& s) const {
  const ModelEnv& e = *env_;
  e.linear_backward_weight(s.d_down, s.g, ids().down);
  e.linear_backward_weight(s.d_u, s.n2, ids().up);
  e.norm_backward_weight(s.d_n2, s.x1, s.stats2, ids().norm2);
  e.linear_backward_weight(s.d_proj, o_rows(s, s.d_proj->shape[0]), ids().proj);
  e.linear_backward_weight(s.d_qkv, s.n1, ids().qkv);
  e.norm_backward_weight(s.d_n1, s.x, s.stats1, ids().norm1);
  s = {};
}

ArenaTensor Block::decode(ArenaTensor x, const Tensor& positions, int64_t past, const Tensor& k_cache,
                          const Tensor& v_cache) const {
  const ModelEnv& e = *env_;
  const HeadLayout& heads = e.core;
  const int64_t n = x->shape[0], total = past + n;
  BlockState s;
  MicroBatch batch;
  batch.share = split_tokens(1, n, {});
  s.x = std::move(x);
  s.stats1 = e.alloc_f32({n, 2});
  s.n1 = e.alloc(s.x->shape);
  e.norm(s.n1, {}, s.stats1, s.x, {}, ids().norm1);
  const ArenaTensor qkv = e.alloc({n, heads.columns()});
  e.linear(qkv, s.n1, ids().qkv);
  s.q = e.alloc({1, n, heads.heads, heads.head_dim});
  e.ops->split_qkv({s.q->reshaped({n, heads.heads, heads.head_dim}), k_cache.slice(past, n), v_cache.slice(past, n),
                    qkv, heads, e.rope, positions});
  const auto seen = [&](const Tensor& cache) {
    return cache.slice(0, total).reshaped({1, total, heads.kv_heads, heads.head_dim});
  };
  s.o = e.alloc(s.q->shape);
  s.lse = e.alloc_f32({1, heads.heads, n});
  AttentionSpec spec = attention_spec(false);
  spec.q_offset = past;
  e.ops->attention({s.o, s.lse, s.q, seen(k_cache), seen(v_cache), {}, {}, spec});
  mlp_input(batch, s);
  return mlp_output(batch, s);
}

}  // namespace fp
