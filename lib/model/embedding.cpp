#include "model/embedding.h"

namespace fp {

ArenaTensor EmbeddingLayer::embed(const Tensor& ids, const Tensor& positions) const {
  const ModelEnv& e = *env_;
  ArenaTensor x = e.alloc({ids.elements(), e.arch->hidden});
  const bool learned = e.ids->positions >= 0;
  e.ops->embedding({x, ids, e.weight(e.ids->embedding), learned ? positions : Tensor{}, e.weight(e.ids->positions),
                    e.arch->embedding_scale});
  return x;
}

ArenaTensor EmbeddingLayer::forward(const MicroBatch& batch) const {
  ArenaTensor x = env_->reduce(embed(batch.ids, batch.embed_positions), batch);
  env_->drop(x, batch, env_->dropout(Purpose::embedding_dropout, env_->arch->dropout_embedding, 0));
  return x;
}

void EmbeddingLayer::backward_weight(ArenaTensor dx, const MicroBatch& batch) const {
  const ModelEnv& e = *env_;
  e.drop(dx, batch, e.dropout(Purpose::embedding_dropout, e.arch->dropout_embedding, 0));
  const ArenaTensor d = e.whole(std::move(dx), batch);
  const auto add_rows = [&](ParamId id, const Tensor& rows, double scale) {
    if (e.params->grad_write(id) == Write::set) e.ops->zero({e.params->grad(id)});
    e.ops->embedding_backward({e.params->grad(id), d, rows, scale});
  };
  add_rows(e.ids->embedding, batch.ids, e.arch->embedding_scale);
  if (e.ids->positions >= 0) add_rows(e.ids->positions, batch.row_positions, 1.0);
}

}  // namespace fp
