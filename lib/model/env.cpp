#include "model/env.h"

#include <algorithm>
#include <utility>

namespace fp {

void ModelEnv::linear_backward_weight(const Tensor& dy, const Tensor& x, const LinearIds& l) const {
  const Write write = params->grad_write(l.first, l.last);
  const Tensor dw = params->grad(l.first, l.last);
  if (l.bias < 0) return ops->linear_backward_weight({dw, dy, x, write});
  const Write bias_write = params->grad_write(l.bias, l.last_bias);
  ops->linear_backward_weight_bias({dw, params->grad(l.bias, l.last_bias), dy, x, write, bias_write});
}

void ModelEnv::norm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& stats, const NormIds& n) const {
  const Write write = params->grad_write(n.gain);
  Tensor bias;
  if (n.bias >= 0) {
    params->grad_write(n.bias);
    bias = params->grad(n.bias);
  }
  ops->norm_backward_weight({params->grad(n.gain), bias, dy, x, stats, arch->norm, write});
}

void ModelEnv::drop(const Tensor& x, const MicroBatch& batch, const Dropout& d) const {
  if (!batch.training || d.p <= 0) return;
  for (const TokenRun& r : batch.runs) {
    const Tensor view = x.slice(r.row, r.samples * r.tokens).reshaped({r.samples, r.tokens, x.cols()});
    ops->dropout({view, view, batch.sample_ids.slice(r.sample, r.samples), r.first_token, d});
  }
}

ArenaTensor ModelEnv::widened(const Tensor& x) const {
  if (x.dtype == DType::f32) return {nullptr, x};
  ArenaTensor wide = alloc_f32(x.shape);
  ops->cast({wide, x});
  return wide;
}

RowPieces ModelEnv::whole(const MicroBatch& b) const {
  if (!tokens.megatron) return {1, b.rows(), b.rows(), 0};
  return {1, b.rows(), b.local_rows(), b.share.first_row};
}

RowPieces ModelEnv::pieces(const MicroBatch& b) const {
  const RowPieces all = whole(b);
  int64_t count = tensor->size() == 1 ? 1 : std::clamp<int64_t>(all.own / piece_rows, 1, tensor_pieces);
  while (all.own % count != 0) --count;
  return {count, all.rows / count, all.own / count, all.first / count};
}

ArenaTensor ModelEnv::reordered(ArenaTensor x, const RowPieces& p, int64_t outer) const {
  if (p.count == 1 || p.rows == p.own) return x;
  const int64_t inner = x->shape[0] / p.own / outer;
  ArenaTensor y = alloc(x->shape);
  constexpr int kSwapOuterAndInner[] = {1, 0, 2, 3};
  ops->permute({y->reshaped({inner, outer, p.own, x->cols()}), x->reshaped({outer, inner, p.own, x->cols()}),
                kSwapOuterAndInner});
  return y;
}

Request ModelEnv::started(Request r) const {
  if (!overlap) r.wait();
  return r;
}

Request ModelEnv::start_gather(const Tensor& x, const RowPieces& p, int64_t piece) const {
  return tokens.megatron ? started(tensor->start_all_gather(p.all_of(x, piece), p.own_place(x, piece))) : Request();
}

MovingRows ModelEnv::start_copy_of_whole(const Tensor& own, const MicroBatch& b, const RowPieces& p) const {
  MovingRows rows({}, alloc({b.rows(), own.cols()}));
  for (int64_t i = 0; i < p.count; ++i) {
    if (tokens.megatron) {
      rows.add(started(tensor->start_all_gather(p.all_of(rows.to(), i), p.own_of(own, i))));
    } else {
      ops->copy({p.all_of(rows.to(), i), p.own_of(own, i)});
      rows.add({});
    }
  }
  return rows;
}

MovingRows ModelEnv::start_whole(ArenaTensor own, const MicroBatch& b, const RowPieces& p) const {
  if (tokens.megatron) {
    MovingRows rows = start_copy_of_whole(own, b, p);
    rows.keep(std::move(own));
    return rows;
  }
  MovingRows rows({}, std::move(own));
  for (int64_t i = 0; i < p.count; ++i) rows.add({});
  return rows;
}

MovingRows ModelEnv::start_sum(const MicroBatch& b, int64_t columns) const {
  return {{}, tokens.megatron ? alloc({b.local_rows(), columns}) : ArenaTensor()};
}

void ModelEnv::sum_piece(MovingRows& sum, const Tensor& x, const RowPieces& p, int64_t piece) const {
  const Tensor all = p.all_of(x, piece);
  sum.add(started(tokens.megatron ? tensor->start_reduce_scatter(p.own_of(sum.to(), piece), all)
                                  : tensor->start_all_reduce(all)));
}

void ModelEnv::hand_over(MovingRows& sum, ArenaTensor x) const {
  tokens.megatron ? sum.keep(std::move(x)) : sum.set_result(std::move(x));
}

MovingRows ModelEnv::start_reduce(ArenaTensor x, const MicroBatch& b, const RowPieces& p) const {
  MovingRows sum = start_sum(b, x->cols());
  for (int64_t i = 0; i < p.count; ++i) sum_piece(sum, x, p, i);
  hand_over(sum, std::move(x));
  return sum;
}

}  // namespace fp
