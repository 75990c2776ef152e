#include "model/block.h"

namespace fp {
namespace {

void wait(std::vector<Request> requests) {
  for (Request& r : requests) r.wait();
}

}  // namespace

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

std::vector<Request> Block::norm_in_pieces(const MicroBatch& batch, ArenaTensor& n, const Tensor& sum,
                                           const Tensor& stats, const Tensor& x, const Tensor& residual,
                                           const NormIds& norm) const {
  const ModelEnv& e = *env_;
  const RowPieces p = e.pieces(batch);
  n = e.alloc({batch.rows(), e.arch->hidden});
  std::vector<Request> arriving;
  for (int64_t i = 0; i < p.count; ++i) {
    const auto own = [&](const Tensor& t) { return t ? p.own_of(t, i) : t; };
    e.norm(p.own_place(n, i), own(sum), own(stats), own(x), own(residual), norm);
    arriving.push_back(e.start_gather(n, p, i));
  }
  return arriving;
}

std::vector<Request> Block::norm_input(const MicroBatch& batch, BlockState& s) const {
  s.stats1 = env_->alloc_f32({batch.local_rows(), 2});
  return norm_in_pieces(batch, s.attention.x, {}, s.stats1, s.x, {}, ids().norm1);
}

RowFlow Block::flow(const MicroBatch& batch, std::vector<Request>& arriving) const {
  return {env_->pieces(batch), [&](int64_t i) { arriving[static_cast<size_t>(i)].wait(); }, {}};
}

template <class Compute>
ArenaTensor Block::summed(const MicroBatch& batch, std::vector<Request> arriving, const Compute& compute) const {
  const ModelEnv& e = *env_;
  MovingRows sum = e.start_sum(batch, e.arch->hidden);
  RowFlow pieces = flow(batch, arriving);
  pieces.after = [&](int64_t i, const Tensor& y) { e.sum_piece(sum, y, pieces.pieces, i); };
  e.hand_over(sum, compute(pieces));
  return sum.wait();
}

ArenaTensor Block::attended(const MicroBatch& batch, BlockState& s, KeyValues& kv,
                            std::vector<Request> arriving) const {
  return summed(batch, std::move(arriving),
                [&](const RowFlow& pieces) { return attention_.forward(batch, s.attention, kv, pieces); });
}

std::vector<Request> Block::add_attention(ArenaTensor attention, const MicroBatch& batch, BlockState& s) const {
  const ModelEnv& e = *env_;
  const int64_t own = batch.local_rows();
  // A parameter may live as long as the caller's statement; this is freed here.
  const ArenaTensor attended = std::move(attention);
  e.drop(attended, batch, residual_dropout());
  s.x1 = e.alloc({own, e.arch->hidden});
  s.stats2 = e.alloc_f32({own, 2});
  return norm_in_pieces(batch, s.mlp.x, s.x1, s.stats2, s.x, attended, ids().norm2);
}

ArenaTensor Block::add_mlp(const MicroBatch& batch, BlockState& s, std::vector<Request> arriving) const {
  ArenaTensor y =
      summed(batch, std::move(arriving), [&](const RowFlow& pieces) { return mlp_.forward(s.mlp, pieces); });
  env_->drop(y, batch, ffn_dropout());
  env_->ops->add({y, s.x1, y});
  return y;
}

ArenaTensor Block::forward(const Tensor& x, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  s.x = x;
  ArenaTensor y = add_mlp(batch, s, add_attention(attended(batch, s, kv, norm_input(batch, s)), batch, s));
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
  std::vector<Request> arriving = norm_input(batch, s);
  attention_.project(batch, s.attention, kv, flow(batch, arriving));
}

void Block::recompute_all(const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  if (recompute_ != Recompute::full) return;
  std::vector<Request> arriving = add_attention(attended(batch, s, kv, norm_input(batch, s)), batch, s);
  mlp_.expand(s.mlp, flow(batch, arriving));
}

Block::Gathers Block::recompute_some(const MicroBatch& batch, BlockState& s) const {
  if (recompute_ != Recompute::selective) return {};
  Gathers gathers;
  gathers.mlp = norm_in_pieces(batch, s.mlp.x, {}, s.stats2, s.x1, {}, ids().norm2);
  gathers.attention = norm_in_pieces(batch, s.attention.x, {}, s.stats1, s.x, {}, ids().norm1);
  mlp_.activate(s.mlp);
  if (mlp_.in_tiles()) wait(std::move(gathers.mlp));  // the tiles begin with its input
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

MovingRows Block::start_mlp_sum(const Tensor& dy, const MicroBatch& batch, BlockState& s, KeyValues& kv,
                                FeedForward::Gradients gradients, Gathers& inputs) const {
  const ModelEnv& e = *env_;
  const RowPieces p = e.pieces(batch);
  recompute_all(batch, s, kv);
  MovingRows sum = e.start_sum(batch, e.arch->hidden);
  MovingRows d_out = start_whole_gradient(dy, batch, ffn_dropout(), p);
  inputs = recompute_some(batch, s);
  e.hand_over(sum, mlp_.backward_input(d_out.take(), s.mlp, gradients,
                                       {p, [&](int64_t i) { d_out.wait(i); },
                                        [&](int64_t i, const Tensor& dx) { e.sum_piece(sum, dx, p, i); }}));
  mlp_.release(s.mlp);
  return sum;
}

MovingRows Block::start_attention_sum(ArenaTensor d_out, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  return env_->start_reduce(attention_.backward_input(std::move(d_out), batch, s.attention, kv), batch,
                            env_->pieces(batch));
}

ArenaTensor Block::backward_input(ArenaTensor dy, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  const ModelEnv& e = *env_;
  Gathers inputs;
  s.d_n2 = start_mlp_sum(dy, batch, s, kv, FeedForward::Gradients::of_input, inputs).wait();
  e.norm_backward_input(dy, s.d_n2, s.x1, s.stats2, ids().norm2, Write::add);
  MovingRows d_out = start_whole_gradient(dy, batch, residual_dropout(), e.whole(batch));
  s.d_n1 = start_attention_sum(d_out.wait(), batch, s, kv).wait();
  e.norm_backward_input(dy, s.d_n1, s.x, s.stats1, ids().norm1, Write::add);
  wait(std::move(inputs.attention));
  wait(std::move(inputs.mlp));
  attention_.release(s.attention);
  return dy;
}

ArenaTensor Block::backward(ArenaTensor dy, const MicroBatch& batch, BlockState& s, KeyValues& kv) const {
  const ModelEnv& e = *env_;
  Gathers inputs;
  MovingRows d_n2 = start_mlp_sum(dy, batch, s, kv, FeedForward::Gradients::of_input_and_weights, inputs);
  wait(std::move(inputs.mlp));
  e.progress();
  mlp_.backward_weight_of_up(s.mlp);
  s.d_n2 = d_n2.wait();
  e.norm_backward_input(dy, s.d_n2, s.x1, s.stats2, ids().norm2, Write::add);
  MovingRows d_out = start_whole_gradient(dy, batch, residual_dropout(), e.whole(batch));
  e.progress();
  mlp_.backward_weight_of_down(s.mlp);
  e.norm_backward_weight(s.d_n2, s.x1, s.stats2, ids().norm2);
  s.mlp = {};
  s.d_n2.reset();
  MovingRows d_n1 = start_attention_sum(d_out.wait(), batch, s, kv);
  attention_.release(s.attention);
  wait(std::move(inputs.attention));
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
  wait(norm_input(batch, s));
  return add_mlp(
      batch, s,
      add_attention(env_->reduce(attention_.decode(s.attention, positions, past, k_cache, v_cache), batch), batch, s));
}

}  // namespace fp
