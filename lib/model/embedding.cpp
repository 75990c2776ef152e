#include "model/embedding.h"

namespace fp {

ArenaTensor Embedding::embed(const Tensor& tokens, const Tensor& positions) const {
  const ModelEnv& e = *env_;
  const EmbeddingIds& ids = e.ids->embedding;
  ArenaTensor x = e.alloc({tokens.elements(), e.arch->hidden});
  const bool learned = ids.positions >= 0;
  e.ops->embedding({x, tokens, e.weight(ids.tokens), learned ? positions : Tensor{}, e.weight(ids.positions),
                    e.arch->embedding_scale});
  return x;
}

ArenaTensor Embedding::forward(const MicroBatch& batch) const {
  ArenaTensor x = env_->reduce(embed(batch.ids, batch.embed_positions), batch);
  env_->drop(x, batch, env_->dropout(Purpose::embedding_dropout, env_->arch->dropout_embedding, 0));
  return x;
}

void Embedding::backward_weight(ArenaTensor dx, const MicroBatch& batch) const {
  const ModelEnv& e = *env_;
  const EmbeddingIds& ids = e.ids->embedding;
  e.drop(dx, batch, e.dropout(Purpose::embedding_dropout, e.arch->dropout_embedding, 0));
  const ArenaTensor d = e.start_whole(std::move(dx), batch, e.whole(batch)).wait();
  const auto add_rows = [&](ParamId id, const Tensor& rows, double scale) {
    if (e.params->grad_write(id) == Write::set) e.ops->zero({e.params->grad(id)});
    e.ops->embedding_backward({e.params->grad(id), d, rows, scale});
  };
  add_rows(ids.tokens, batch.ids, e.arch->embedding_scale);
  if (ids.positions >= 0) add_rows(ids.positions, batch.row_positions, 1.0);
}

}  // namespace fp
