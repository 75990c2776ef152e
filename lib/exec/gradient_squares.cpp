#include "exec/gradient_squares.h"

#include <algorithm>

namespace fp {

GradientSquares::GradientSquares(const ModelEnv& env) : env_(&env) {
  const ParamTable& table = env.params->table();
  for (const ParamUnit& unit : table.units()) {
    const int64_t origin = table.shard_of(unit, table.shard()).first;
    std::vector<IndexRange>& owned = owned_.emplace_back();
    for (ParamId id = unit.first; id <= unit.last; ++id)
      for (const Fragment& f : table.owned(id))
        owned.push_back({table[id].offset + f.offset - origin, f.count.elements()});
    first_.push_back(count_);
    count_ += static_cast<int64_t>(owned.size());
  }
  squares_ = env.alloc_f32({std::max<int64_t>(count_, 1)});
}

void GradientSquares::add(int unit, const Tensor& shard) {
  const std::vector<IndexRange>& owned = owned_[static_cast<size_t>(unit)];
  if (owned.empty()) return;
  const Tensor squares = squares_->slice(first_[static_cast<size_t>(unit)], static_cast<int64_t>(owned.size()));
  env_->ops->sum_squares({squares, env_->widened(shard), owned});
}

double GradientSquares::sum() const {
  double sum = 0;
  if (count_ == 0) return sum;
  std::vector<float> host(static_cast<size_t>(count_));
  env_->ops->copy_out({host.data(), squares_->slice(0, count_)});
  for (const float s : host) sum += s;
  return sum;
}

}  // namespace fp
