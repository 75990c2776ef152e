#include "model/key_values.h"

namespace fp {

void add_part(const ModelEnv& e, ArenaTensor& sum, ArenaTensor part) {
  if (sum) return e.ops->accumulate({sum, part});
  if (part->dtype == DType::f32) {
    sum = std::move(part);
  } else {
    sum = e.alloc_f32(part->shape);
    e.ops->cast({sum, part});
  }
}

ArenaTensor rounded(const ModelEnv& e, ArenaTensor sum) {
  if (e.params->compute() == DType::f32) return sum;
  ArenaTensor narrow = e.alloc(sum->shape);
  e.ops->cast({narrow, sum});
  return narrow;
}

ArenaTensor KeyValues::allocate(int64_t samples, int64_t length) const {
  return env_->alloc({2 * samples, length, env_->core.kv_heads, env_->core.head_dim});
}

KeyValues::Pair KeyValues::pair_of(const Tensor& both) {
  const int64_t samples = both.shape[0] / 2;
  return {both.slice(0, samples), both.slice(samples, samples)};
}

void KeyValues::put(size_t chunk, ArenaTensor both) {
  OffloadedTensor& kept = chunks_[chunk].both;
  const bool later = !kept && chunk + 1 < chunks_.size();
  kept = OffloadedTensor(std::move(both));
  if (offloaded_ && later)
    departures_.send(*env_, kept);
  else
    departures_.flush();
}

void KeyValues::fetch(size_t chunk, bool gradients) {
  chunks_[chunk].both.fetch();
  if (gradients) chunks_[chunk].gradients.fetch();
}

void KeyValues::add_gradients(size_t chunk, ArenaTensor part) {
  OffloadedTensor& kept = chunks_[chunk].gradients;
  if (kept) {
    env_->ops->accumulate({kept.on_device(), part});
  } else {
    ArenaTensor sum;
    add_part(*env_, sum, std::move(part));
    kept = OffloadedTensor(std::move(sum));
  }
  if (offloaded_) departures_.send(*env_, kept);
}

ArenaTensor KeyValues::finish(size_t chunk, ArenaTensor part) {
  Chunk done = std::move(chunks_[chunk]);
  done.both.reset();
  if (!done.gradients) return part;
  ArenaTensor sum = done.gradients.take();
  add_part(*env_, sum, std::move(part));
  return rounded(*env_, std::move(sum));
}

void KeyValues::clear() {
  for (Chunk& c : chunks_) c = {};
}

}  // namespace fp
