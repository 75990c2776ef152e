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

// Writes the normed input of the MLP, in the order of pieces, and starts to gather it. With statistics in the state and
// no `sum` to write, these are used again.
std::vector<Request> Block::norm_mlp_input(const MicroBatch& batch, BlockState& s, const Tensor& sum, const Tensor& x,
                                           const Tensor& residual) const {
  const ModelEnv& e = *env_;
  const RowPieces p = e.pieces(batch);
  ArenaTensor& n = s.mlp.x;
  n = e.alloc({batch.rows(), e.arch->hidden});
  std::vector<Request> arriving;
  for (int64_t i = 0; i < p.count; ++i) {
    const auto own = [&](const Tensor& t) { return t ? p.own_of(t, i) : t; };
    e.norm(p.own_place(n, i), own(sum), own(s.stats2), own(x), own(residual), ids().norm2);
    arriving.push_back(e.start_gather(n, p, i));
  }
  return arriving;
}

FeedForward::Flow Block::flow(const MicroBatch& batch, std::vector<Request>& arriving) const {
  return {env_->pieces(batch), [&](int64_t i) { arriving[static_cast<size_t>(i)].wait(); }, {}};
}

std::vector<Request> Block::add_attention(ArenaTensor addend, const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  const int64_t own = batch.local_rows();
  const ArenaTensor attended = e.reduce(std::move(addend), batch);
  e.drop(attended, batch, residual_dropout());
  s.x1 = e.alloc({own, e.arch->hidden});
  s.stats2 = e.alloc_f32({own, 2});
  return norm_mlp_input(batch, s, s.x1, s.x, attended);
}

ArenaTensor Block::add_mlp(const MicroBatch& batch, BlockState& s, std::vector<Request> arriving) const {
  const ModelEnv& e = *env_;
  MovingRows sum = e.start_sum(batch, e.arch->hidden);
  FeedForward::Flow pieces = flow(batch, arriving);
  pieces.after = [&](int64_t i, const Tensor& y) { e.sum_piece(sum, y, pieces.pieces, i); };
  ArenaTensor addend = mlp_.forward(s.mlp, pieces);
  ArenaTensor y = e.end_sum(std::move(sum), std::move(addend));
  e.drop(y, batch, ffn_dropout());
  e.ops->add({y, s.x1, y});
  return y;
}

ArenaTensor Block::forward(const Tensor& x, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  s.x = x;
  norm_input(batch, s);
  ArenaTensor y = add_mlp(batch, s, add_attention(attention_.forward(batch, s.attention, kv), batch, s));
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

void Block::recompute_all(const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  if (recompute_ != Recompute::full) return;
  norm_input(batch, s);
  std::vector<Request> arriving = add_attention(attention_.forward(batch, s.attention, kv), batch, s);
  mlp_.expand(s.mlp, flow(batch, arriving));
}

Block::Gathers Block::recompute_some(const MicroBatch& batch, BlockState& s) const {
  if (recompute_ != Recompute::selective) return {};
  const ModelEnv& e = *env_;
  Gathers gathers;
  gathers.mlp = norm_mlp_input(batch, s, {}, s.x1, {});
  ArenaTensor& n = s.attention.x;
  n = e.alloc({batch.rows(), e.arch->hidden});
  e.norm(e.own_rows(n, batch), {}, s.stats1, s.x, {}, ids().norm1);
  gathers.attention = e.start_gather(n, batch);
  mlp_.activate(s.mlp);
  if (mlp_.in_tiles()) gathers.wait_for_mlp();  // the tiles begin with its input
  return gathers;
}

// Starts to gather the gradient dy [M',h] of a sum over the ranks, with dropout applied, to [M,h] for the products. It
// is a copy, as dy goes on to gather the gradients of the residual stream.
MovingRows Block::start_whole_gradient(const Tensor& dy, const MicroBatch& batch, const Dropout& dropout,
                                       const RowPieces& p) const {
  const ModelEnv& e = *env_;
  if (dropout.p <= 0) return e.start_copy_of_whole(dy, batch, p);
  ArenaTensor d = e.alloc(dy.shape);
  e.ops->copy({d, dy});
  e.drop(d, batch, dropout);
  return e.start_whole(std::move(d), batch, p);
}

ArenaTensor Block::backward_mlp(const Tensor& dy, const MicroBatch& batch, BlockState& s,
                                FeedForward::Gradients gradients, MovingRows& sum, Gathers& inputs) const {
  const ModelEnv& e = *env_;
  const RowPieces p = e.pieces(batch);
  MovingRows d_out = start_whole_gradient(dy, batch, ffn_dropout(), p);
  inputs = recompute_some(batch, s);
  ArenaTensor addend = mlp_.backward_input(
      d_out.take(), s.mlp, gradients,
      {p, [&](int64_t i) { d_out.wait(i); }, [&](int64_t i, const Tensor& dx) { e.sum_piece(sum, dx, p, i); }});
  mlp_.release(s.mlp);
  return addend;
}

ArenaTensor Block::backward_input(ArenaTensor dy, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  const ModelEnv& e = *env_;
  recompute_all(batch, s, kv);
  MovingRows sum = e.start_sum(batch, e.arch->hidden);
  Gathers inputs;
  ArenaTensor addend = backward_mlp(dy, batch, s, FeedForward::Gradients::of_input, sum, inputs);
  s.d_n2 = e.end_sum(std::move(sum), std::move(addend));
  e.norm_backward_input(dy, s.d_n2, s.x1, s.stats2, ids().norm2, Write::add);
  MovingRows d_out = start_whole_gradient(dy, batch, residual_dropout(), e.whole(batch));
  s.d_n1 = e.reduce(attention_.backward_input(d_out.wait(), batch, s.attention, kv), batch);
  e.norm_backward_input(dy, s.d_n1, s.x, s.stats1, ids().norm1, Write::add);
  inputs.attention.wait();
  inputs.wait_for_mlp();
  attention_.release(s.attention);
  return dy;
}

ArenaTensor Block::backward(ArenaTensor dy, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  const ModelEnv& e = *env_;
  recompute_all(batch, s, kv);
  MovingRows sum = e.start_sum(batch, e.arch->hidden);
  Gathers inputs;
  ArenaTensor addend = backward_mlp(dy, batch, s, FeedForward::Gradients::of_input_and_weights, sum, inputs);
  inputs.wait_for_mlp();
  e.progress();
  mlp_.backward_weight_of_up(s.mlp);
  s.d_n2 = e.end_sum(std::move(sum), std::move(addend));
  e.norm_backward_input(dy, s.d_n2, s.x1, s.stats2, ids().norm2, Write::add);
  MovingRows d_out = start_whole_gradient(dy, batch, residual_dropout(), e.whole(batch));
  e.progress();
  mlp_.backward_weight_of_down(s.mlp);
  e.norm_backward_weight(s.d_n2, s.x1, s.stats2, ids().norm2);
  s.mlp = {};
  s.d_n2.reset();
  MovingRows d_n1 = e.start_reduce(attention_.backward_input(d_out.wait(), batch, s.attention, kv), batch);
  attention_.release(s.attention);
  inputs.attention.wait();
  e.progress();
  attention_.backward_weight(s.attention);
  s.d_n1 = d_n1.wait();
  e.norm_backward_input(dy, s.d_n1, s.x, s.stats1, ids().norm1, Write::add);
  e.norm_backward_weight(s.d_n1, s.x, s.stats1, ids().norm1);
  s = {};
  return dy;
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
  return add_mlp(batch, s, add_attention(attention_.decode(s.attention, positions, past, k_cache, v_cache), batch, s));
}

}  // namespace fp
