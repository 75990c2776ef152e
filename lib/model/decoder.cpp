#include "model/decoder.h"

#include <numeric>
#include <utility>

namespace fp {

Decoder::Decoder(Model& model, int64_t capacity) : model_(&model), capacity_(capacity) {
  const Architecture& a = model.architecture();
  for (int64_t l = 0; l < a.layers; ++l) {
    keys_.push_back(model.env().alloc({capacity, a.heads.kv_heads, a.heads.head_dim}));
    values_.push_back(model.env().alloc({capacity, a.heads.kv_heads, a.heads.head_dim}));
  }
  logits_.resize(static_cast<size_t>(a.vocab));
}

std::span<const float> Decoder::append(std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  FP_CHECK(n > 0 && length_ + n <= capacity_, "decoder holds {} of {} positions, {} more do not fit", length_,
           capacity_, n);
  const ModelEnv& e = model_->env();
  std::vector<int32_t> host(static_cast<size_t>(n));
  std::iota(host.begin(), host.end(), static_cast<int32_t>(length_));
  const ArenaTensor ids = e.arena->alloc(DType::i32, {n}), positions = e.arena->alloc(DType::i32, {n});
  e.ops->copy_in(ids, tokens.data());
  e.ops->copy_in(positions, host.data());
  ArenaTensor x = model_->embedding().embed(ids, positions);
  for (size_t l = 0; l < keys_.size(); ++l)
    x = model_->blocks()[l].decode(std::move(x), positions, length_, keys_[l], values_[l]);
  length_ += n;
  ArenaTensor row = e.alloc({1, model_->architecture().hidden});
  e.ops->copy(row, x->slice(n - 1, 1));
  model_->head().logits(std::move(row), logits_);
  return logits_;
}

}  // namespace fp
