#include "interop/grown_rows.h"

#include <algorithm>

#include "base/progress.h"

namespace fp {

GrownRows::GrownRows(const ParamTable& table, const ShapeOf& shape_of, TensorReader& source)
    : table_(table), source_(source) {
  for (const Param& p : table)
    if (const std::optional<Shape> stored = shape_of(p.name); stored && may_grow(p, *stored)) rows_[p.name] = *stored;
}

bool GrownRows::may_grow(const Param& p, const Shape& in_source) {
  return p.layer < 0 && p.shape.rank() == 2 && in_source.rank() == 2 && p.shape[1] == in_source[1] &&
         p.shape[0] > in_source[0];
}

const std::vector<float>& GrownRows::mean_of(const std::string& param) {
  std::vector<float>& mean = means_[param];
  if (!mean.empty()) return mean;
  const Shape& stored = rows_.at(param);
  const int64_t columns = stored[1], step = std::max<int64_t>(1, kBlockElements / columns);
  std::vector<double> sums(static_cast<size_t>(columns), 0.0);
  std::vector<float> block(static_cast<size_t>(std::min(step, stored[0]) * columns));
  for (int64_t first = 0; first < stored[0]; first += step) {
    const Shape count{std::min(step, stored[0] - first), columns};
    source_.read(param, kParamState, {{first, 0}, count}, block.data(), {count, {0, 0}});
    for (int64_t i = 0; i < count.elements(); ++i)
      sums[static_cast<size_t>(i % columns)] += block[static_cast<size_t>(i)];
    progress();
  }
  for (const double sum : sums) mean.push_back(static_cast<float>(sum / static_cast<double>(stored[0])));
  return mean;
}

void GrownRows::read(const std::string& param, const std::string& state, const Box& box, float* data,
                     const h5::Window& window) {
  const auto grown = rows_.find(param);
  const int64_t end = box.start[0] + box.count[0], stored = grown == rows_.end() ? end : grown->second[0];
  if (end <= stored) return source_.read(param, state, box, data, window);
  const int64_t first = std::max(box.start[0], stored);
  if (first > box.start[0]) {
    Box below = box;
    below.count[0] = first - box.start[0];
    source_.read(param, state, below, data, window);
  }
  const float* mean = mean_of(param).data() + box.start[1];
  for (int64_t row = first; row < end; ++row)
    std::copy_n(mean, box.count[1], data + (window.start[0] + row - box.start[0]) * window.dims[1] + window.start[1]);
}

void GrownRows::subtract_from(Fingerprints& prints) {
  for (const auto& [name, stored] : rows_) {
    const ParamId id = table_.find(name);
    for (const Fragment& whole : table_.owned(id))
      for (const Fragment& f : chunks(whole, kBlockElements)) {
        Box box = f;
        const int64_t first = std::max(box.start[0], stored[0]);
        box.count[0] -= first - box.start[0];
        box.start[0] = first;
        if (box.count[0] <= 0) continue;
        std::vector<float> values(static_cast<size_t>(box.count.elements()));
        const h5::Window window{box.count, {0, 0}};
        read(name, kParamState, box, values.data(), window);
        prints[static_cast<size_t>(id)][kParamState] -= fingerprint(table_[id].shape, box, values.data(), window);
      }
  }
}

}  // namespace fp
