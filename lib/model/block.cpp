#include "model/block.h"

namespace fp {

// Selective recomputation derives g from u alone, so the first computation must do the same to give equal numbers.
// Tiles are computed again from the start.
Block::Block(const ModelEnv& env, int64_t layer, Recompute recompute, int64_t mlp_tile)
    : env_(&env),
      layer_(layer),
      recompute_(recompute),
      attention_(env, layer),
      mlp_(env, layer, mlp_tile, mlp_tile > 0 || recompute != Recompute::selective) {}

Dropout Block::residual_dropout() const {
  return env_->dropout(Purpose::residual_dropout, env_->arch->dropout_residual, layer_);
}
Dropout Block::ffn_dropout() const { return env_->dropout(Purpose::ffn_dropout, env_->arch->dropout_ffn, layer_); }

void Block::norm_input(const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  ArenaTensor& n = s.attention.x;
  s.stats1 = e.alloc_f32({batch.local_rows(), 2});
  n = e.alloc({batch.rows(), e.arch->hidden});
  e.norm(e.own_rows(n, batch), {}, s.stats1, s.x, {}, ids().norm1);
  e.gather(n, batch);
}

void Block::add_attention(ArenaTensor addend, const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  const int64_t own = batch.local_rows(), h = e.arch->hidden;
  const ArenaTensor attended = e.reduce(std::move(addend), batch);
  e.drop(attended, batch, residual_dropout());
  ArenaTensor& n = s.mlp.x;
  s.x1 = e.alloc({own, h});
  s.stats2 = e.alloc_f32({own, 2});
  n = e.alloc({batch.rows(), h});
  e.norm(e.own_rows(n, batch), s.x1, s.stats2, s.x, attended, ids().norm2);
  e.gather(n, batch);
}

ArenaTensor Block::add_mlp(ArenaTensor addend, const MicroBatch& batch, const BlockState& s) const {
  ArenaTensor y = env_->reduce(std::move(addend), batch);
  env_->drop(y, batch, ffn_dropout());
  env_->ops->add({y, s.x1, y});
  return y;
}

ArenaTensor Block::forward(const Tensor& x, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  s.x = x;
  norm_input(batch, s);
  add_attention(attention_.forward(batch, s.attention, kv), batch, s);
  ArenaTensor y = add_mlp(mlp_.forward(s.mlp), batch, s);
  if (!batch.training || recompute_ == Recompute::full) {
    s = {};
  } else if (recompute_ == Recompute::selective) {
    s.attention.x.reset();
    s.mlp.x.reset();
    s.mlp.g.reset();
  }
  return y;
}

void Block::end_forward(const MicroBatch& batch, KeyValues& kv) const {
  if (!batch.training || recompute_ == Recompute::full) kv.clear();
}

void Block::restore_keys(const Tensor& x, const MicroBatch& batch, KeyValues& kv) const {
  BlockState s;
  s.x = x;
  norm_input(batch, s);
  attention_.project(batch, s.attention, kv);
}

void Block::recompute_activations(const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  const ModelEnv& e = *env_;
  if (recompute_ == Recompute::full) {
    norm_input(batch, s);
    add_attention(attention_.forward(batch, s.attention, kv), batch, s);
    mlp_.expand(s.mlp);
  } else if (recompute_ == Recompute::selective) {
    const auto again = [&](ArenaTensor& n, const Tensor& stats, const Tensor& x, const NormIds& norm) {
      n = e.alloc({batch.rows(), e.arch->hidden});
      e.norm(e.own_rows(n, batch), {}, stats, x, {}, norm);
      e.gather(n, batch);
    };
    again(s.attention.x, s.stats1, s.x, ids().norm1);
    again(s.mlp.x, s.stats2, s.x1, ids().norm2);
    mlp_.activate(s.mlp);
  }
}

// Returns the gradient dy [M',h] of a sum over the ranks with dropout applied, gathered to [M,h] for the products. It
// is a copy, as dy goes on to gather the gradients of the residual stream.
ArenaTensor Block::whole_gradient(const Tensor& dy, const MicroBatch& batch, const Dropout& dropout) const {
  const ModelEnv& e = *env_;
  if (dropout.p <= 0) return e.whole_copy(dy, batch);
  ArenaTensor d = e.alloc(dy.shape);
  e.ops->copy({d, dy});
  e.drop(d, batch, dropout);
  return e.whole(std::move(d), batch);
}

ArenaTensor Block::backward_input(ArenaTensor dy, const MicroBatch& batch, BlockState& s, KeyValues& kv,
                                  FeedForward::Gradients gradients) const {
  const ModelEnv& e = *env_;
  recompute_activations(batch, s, kv);
  s.d_n2 = e.reduce(mlp_.backward_input(whole_gradient(dy, batch, ffn_dropout()), s.mlp, gradients), batch);
  e.norm_backward_input(dy, s.d_n2, s.x1, s.stats2, ids().norm2, Write::add);
  ArenaTensor d_n1 = attention_.backward_input(whole_gradient(dy, batch, residual_dropout()), batch, s.attention, kv);
  s.d_n1 = e.reduce(std::move(d_n1), batch);
  e.norm_backward_input(dy, s.d_n1, s.x, s.stats1, ids().norm1, Write::add);
  attention_.release(s.attention);
  mlp_.release(s.mlp);
  return dy;
}

ArenaTensor Block::backward(ArenaTensor dy, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  ArenaTensor dx = backward_input(std::move(dy), batch, s, kv, FeedForward::Gradients::of_input_and_weights);
  backward_weight(s);
  return dx;
}

void Block::backward_weight(BlockState& s) const {
  const ModelEnv& e = *env_;
  mlp_.backward_weight(s.mlp);
  e.norm_backward_weight(s.d_n2, s.x1, s.stats2, ids().norm2);
  attention_.backward_weight(s.attention);
  e.norm_backward_weight(s.d_n1, s.x, s.stats1, ids().norm1);
  s = {};
}

ArenaTensor Block::decode(ArenaTensor x, const Tensor& positions, int64_t past, const Tensor& k_cache,
                          const Tensor& v_cache) const {
  BlockState s;
  MicroBatch batch;
  batch.share = split_tokens(1, x->shape[0], {}).front();
  s.x = x;
  norm_input(batch, s);
  add_attention(attention_.decode(s.attention, positions, past, k_cache, v_cache), batch, s);
  return add_mlp(mlp_.forward(s.mlp), batch, s);
}

}  // namespace fp
