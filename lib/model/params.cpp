#include "model/params.h"

#include <algorithm>

#include "base/parallel.h"

namespace fp {

ParamId ParamTable::add(const std::string& name, const Shape& shape, const Partition& partition, const InitRule& init,
                        int layer, bool joined) {
  FP_CHECK(find(name) < 0, "parameter {} declared twice", name);
  Param p{name, shape, local_shape(shape, partition, tp_, name), partition, init, shape.rank() >= 2, layer, 0};
  if (!joined) flat_ = (flat_ + kAlign - 1) / kAlign * kAlign;
  p.offset = flat_;
  flat_ += p.local_elements();
  params_.push_back(std::move(p));
  return static_cast<ParamId>(params_.size()) - 1;
}

ParamId ParamTable::find(std::string_view name) const {
  const auto it = std::find_if(params_.begin(), params_.end(), [&](const Param& p) { return p.name == name; });
  return it == params_.end() ? -1 : static_cast<ParamId>(it - params_.begin());
}

int64_t ParamTable::logical_parameters() const {
  int64_t n = 0;
  for (const Param& p : params_) n += p.shape.elements();
  return n;
}

std::vector<Slab> ParamTable::slabs_of(ParamId id) const {
  return slabs((*this)[id].shape, (*this)[id].partition, tp_, tp_index_);
}

void initial_values(const Param& p, uint64_t seed, int64_t first, std::span<float> out) {
  if (p.init.kind != InitRule::Kind::normal) {
    std::fill(out.begin(), out.end(), p.init.kind == InitRule::Kind::ones ? 1.0f : 0.0f);
    return;
  }
  const auto key = Philox::key(seed, Purpose::init);
  const uint64_t name = Philox::name_id(p.name);
  const auto std = static_cast<float>(p.init.std);
  parallel_for(static_cast<int64_t>(out.size()), 1 << 16, [&](int64_t begin, int64_t end) {
    // Four values come from one Philox block; ranges may start and end inside one.
    for (int64_t i = first + begin; i < first + end;) {
      const uint64_t block = static_cast<uint64_t>(i / 4);
      const auto w = Philox::block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                    static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32)},
                                   key);
      const auto a = Philox::normal(w[0], w[1]), b = Philox::normal(w[2], w[3]);
      const float values[4] = {a[0], a[1], b[0], b[1]};
      for (; i < first + end && static_cast<uint64_t>(i / 4) == block; ++i)
        out[static_cast<size_t>(i - first)] = std * values[i % 4];
    }
  });
}

}  // namespace fp
