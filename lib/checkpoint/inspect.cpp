#include "checkpoint/inspect.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "base/shown.h"

namespace fp {
namespace {

// Rows [first, first + count) of a tensor.
Box rows_of(const Shape& shape, int64_t first, int64_t count) {
  Box box{shape, shape};
  for (int i = 0; i < shape.rank(); ++i) box.start[i] = 0;
  box.start[0] = first;
  box.count[0] = count;
  return box;
}

void read_box(FragmentReader& reader, const std::string& param, const std::string& state, const Box& box,
              std::vector<float>& host) {
  host.resize(static_cast<size_t>(box.count.elements()));
  reader.read(param, state, box, host.data(), dense_window(box));
}

// Returns elements [first, first + count) of dimension 1 of a row.
Box part_of_row(const Shape& shape, int64_t row, int64_t first, int64_t count) {
  Box box = rows_of(shape, row, 1);
  box.start[1] = first;
  box.count[1] = count;
  return box;
}

// Calls visit(box) for consecutive boxes of a tensor, in row-major order: as many rows as fill at most a block, or the
// parts of a longer row.
template <class Visit>
void for_each_box(const Shape& shape, const Visit& visit) {
  const int64_t width = shape.elements() / std::max<int64_t>(shape[0], 1);
  if (width > kBlockElements) {
    const int64_t step = std::max<int64_t>(1, kBlockElements / (width / shape[1]));
    for (int64_t row = 0; row < shape[0]; ++row)
      for (int64_t at = 0; at < shape[1]; at += step) visit(part_of_row(shape, row, at, std::min(step, shape[1] - at)));
    return;
  }
  const int64_t step = kBlockElements / std::max<int64_t>(width, 1);
  for (int64_t row = 0; row < shape[0]; row += step) visit(rows_of(shape, row, std::min(step, shape[0] - row)));
}

TensorDifference compare_tensor(FragmentReader& a, FragmentReader& b, const CheckpointParam& p,
                                const std::string& state) {
  TensorDifference d{p.name, state, p.shape.elements(), 0, 0.0};
  std::vector<float> x, y;
  for_each_box(p.shape, [&](const Box& box) {
    read_box(a, p.name, state, box, x);
    read_box(b, p.name, state, box, y);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::bit_cast<uint32_t>(x[i]) == std::bit_cast<uint32_t>(y[i])) continue;
      ++d.differing;
      const double gap = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
      d.max_abs = std::max(d.max_abs, std::isfinite(gap) ? gap : HUGE_VAL);
    }
  });
  return d;
}

template <class T>
void note(std::vector<std::string>& list, std::string_view what, const T& a, const T& b) {
  if (!(a == b)) list.push_back(fmt::format("{}: {} and {}", what, a, b));
}

void compare_state(const CheckpointManifest& a, const CheckpointManifest& b, CheckpointDifference& d) {
  note(d.state, "step", a.step, b.step);
  note(d.state, "consumed samples", a.consumed_samples, b.consumed_samples);
  if (std::bit_cast<uint64_t>(a.last_loss) != std::bit_cast<uint64_t>(b.last_loss))
    d.state.push_back(fmt::format("last loss: {} and {}", a.last_loss, b.last_loss));
  std::set<std::string> keys;
  for (const auto* m : {&a, &b})
    for (const auto& [key, value] : m->extra.items()) keys.insert(key);
  for (const std::string& key : keys) {
    const auto of = [&](const CheckpointManifest& m) { return printable(m.extra.value(key, nlohmann::json()).dump()); };
    note(d.notes, "extra." + shown(key), of(a), of(b));
  }
  for (const char* name : {CheckpointManifest::kConfigName, CheckpointManifest::kTokenizerName}) {
    const CheckpointFile *x = a.file(name), *y = b.file(name);
    if ((x == nullptr) != (y == nullptr) || (x != nullptr && x->xxh3 != y->xxh3))
      d.notes.push_back(fmt::format("{} differs", name));
  }
  const auto mesh = [](const Mesh& m) { return fmt::format("pp{} dp{} sp{} tp{}", m.pp(), m.dp(), m.sp(), m.tp()); };
  note(d.notes, "mesh", mesh(a.mesh), mesh(b.mesh));
}

// The states that either of two parameters has.
std::vector<std::string> states_of(const CheckpointParam& a, const CheckpointParam& b) {
  std::vector<std::string> names;
  for (const StoredState& s : a.states) names.push_back(s.name);
  for (const StoredState& s : b.states)
    if (a.find(s.name) == nullptr) names.push_back(s.name);
  return names;
}

void only_in(const Checkpoint& has, const Checkpoint& lacks, CheckpointDifference& d) {
  for (const CheckpointParam& p : has.manifest().parameters)
    if (lacks.manifest().parameter(p.name) == nullptr)
      d.structure.push_back(fmt::format("{} {} is only in {}", p.name, p.shape.str(), has.folder().string()));
}

}  // namespace

TensorStats tensor_stats(FragmentReader& reader, const std::string& param, const std::string& state) {
  const Shape& shape = reader.parameter(param).shape;
  TensorStats s;
  s.elements = shape.elements();
  s.min = s.max = std::numeric_limits<double>::quiet_NaN();
  double sum = 0, squares = 0;
  std::vector<float> host;
  for_each_box(shape, [&](const Box& box) {
    read_box(reader, param, state, box, host);
    for (const float x : host) {
      if (!std::isfinite(x)) {
        ++s.nonfinite;
        continue;
      }
      const double v = x;
      sum += v;
      squares += v * v;
      s.min = std::fmin(s.min, v);
      s.max = std::fmax(s.max, v);
    }
  });
  s.norm = std::sqrt(squares);
  s.mean = sum / static_cast<double>(std::max<int64_t>(1, s.elements - s.nonfinite));
  return s;
}

std::vector<float> first_elements(FragmentReader& reader, const std::string& param, const std::string& state,
                                  int64_t count) {
  const Shape& shape = reader.parameter(param).shape;
  const int64_t width = shape.elements() / shape[0];
  const bool in_row = shape.rank() > 1 && count < width;
  std::vector<float> host;
  read_box(reader, param, state,
           in_row ? part_of_row(shape, 0, 0, (count - 1) / (width / shape[1]) + 1)
                  : rows_of(shape, 0, std::min(shape[0], (count + width - 1) / width)),
           host);
  host.resize(std::min(host.size(), static_cast<size_t>(count)));
  return host;
}

std::string differing_tensors(const Checkpoint& c, const ReadTensor& read) {
  std::vector<float> host;
  std::string bad;
  for (const CheckpointParam& p : c.manifest().parameters)
    for (const auto& [state, expected, dtype] : p.states) {
      uint64_t sum = 0;
      for_each_box(p.shape, [&](const Box& box) {
        host.resize(static_cast<size_t>(box.count.elements()));
        read(p, state, box, host.data(), dense_window(box));
        sum += fingerprint(p.shape, box, host.data(), dense_window(box));
      });
      if (sum != expected) bad += fmt::format("\n  {} of {}", state, p.name);
    }
  return bad;
}

void verify_tensors(const Checkpoint& c) {
  FragmentReader reader(c);
  const std::string bad =
      differing_tensors(c, [&](const CheckpointParam& p, const std::string& state, const Box& box, float* data,
                               const h5::Window& window) { reader.read(p.name, state, box, data, window); });
  if (!bad.empty())
    throw DataError(fmt::format("{}: {} leads to other tensors than were saved:{}", c.folder().string(),
                                c.needs_hdf5() ? CheckpointManifest::kIndexName : CheckpointManifest::kTableName, bad));
}

CheckpointDifference compare(const Checkpoint& a, const Checkpoint& b) {
  CheckpointDifference d;
  only_in(a, b, d);
  only_in(b, a, d);
  FragmentReader reader_a(a), reader_b(b);
  for (const CheckpointParam& p : a.manifest().parameters) {
    const CheckpointParam* other = b.manifest().parameter(p.name);
    if (other == nullptr) continue;
    if (!(p.shape == other->shape)) {
      d.structure.push_back(fmt::format("{}: {} and {}", p.name, p.shape.str(), other->shape.str()));
      continue;
    }
    for (const std::string& state : states_of(p, *other)) {
      const bool in_a = p.find(state) != nullptr, in_b = other->find(state) != nullptr;
      if (in_a != in_b)
        d.structure.push_back(fmt::format("{} of {} is only in {}", state, p.name, (in_a ? a : b).folder().string()));
      if (!in_a || !in_b) continue;
      ++d.compared;
      TensorDifference t = compare_tensor(reader_a, reader_b, p, state);
      if (t.differing > 0) d.tensors.push_back(std::move(t));
    }
  }
  compare_state(a.manifest(), b.manifest(), d);
  return d;
}

}  // namespace fp
