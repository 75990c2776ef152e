#include "checkpoint/inspect.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "checkpoint/fragment_reader.h"

namespace fp {
namespace {

h5::File open_index(const Checkpoint& c) { return h5::File::open(c.folder() / CheckpointManifest::kIndexName); }

// Rows [first, first + count) of a tensor.
h5::Box rows_of(const Shape& shape, int64_t first, int64_t count) {
  h5::Box box{shape, shape};
  for (int i = 0; i < shape.rank(); ++i) box.start[i] = 0;
  box.start[0] = first;
  box.count[0] = count;
  return box;
}

// Reads a box into host memory, tightly packed.
void read_box(const h5::Dataset& dataset, const h5::Box& box, std::vector<float>& host) {
  host.resize(static_cast<size_t>(box.count.elements()));
  dataset.read(box, host.data(), {box.count, rows_of(box.count, 0, 0).start});
}

// Calls visit(box) for consecutive rows of a tensor that fill at most a block.
template <class Visit>
void for_each_rows(const Shape& shape, const Visit& visit) {
  const int64_t width = shape.elements() / std::max<int64_t>(shape[0], 1);
  const int64_t step = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(width, 1));
  for (int64_t row = 0; row < shape[0]; row += step) visit(rows_of(shape, row, std::min(step, shape[0] - row)));
}

TensorDifference compare_tensor(const h5::Dataset& a, const h5::Dataset& b, const std::string& param, StateKind kind) {
  TensorDifference d{param, kind, a.shape().elements(), 0, 0.0};
  std::vector<float> x, y;
  for_each_rows(a.shape(), [&](const h5::Box& box) {
    read_box(a, box, x);
    read_box(b, box, y);
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
    const auto of = [&](const CheckpointManifest& m) { return m.extra.value(key, nlohmann::json()).dump(); };
    note(d.notes, "extra." + key, of(a), of(b));
  }
  for (const char* name : {CheckpointManifest::kConfigName, CheckpointManifest::kTokenizerName}) {
    const CheckpointFile *x = a.file(name), *y = b.file(name);
    if ((x == nullptr) != (y == nullptr) || (x != nullptr && x->xxh3 != y->xxh3))
      d.notes.push_back(fmt::format("{} differs", name));
  }
  const auto mesh = [](const Mesh& m) { return fmt::format("pp{} dp{} sp{} tp{}", m.pp(), m.dp(), m.sp(), m.tp()); };
  note(d.notes, "mesh", mesh(a.mesh), mesh(b.mesh));
}

void only_in(const Checkpoint& has, const Checkpoint& lacks, CheckpointDifference& d) {
  for (const CheckpointParam& p : has.manifest().parameters)
    if (lacks.manifest().parameter(p.name) == nullptr)
      d.structure.push_back(fmt::format("{} {} is only in {}", p.name, p.shape.str(), has.folder().string()));
}

}  // namespace

TensorStats tensor_stats(const Checkpoint& c, const std::string& param, StateKind kind) {
  const h5::File index = open_index(c);
  const h5::Dataset dataset = index.dataset(dataset_name(param, kind));
  TensorStats s;
  s.elements = dataset.shape().elements();
  s.min = s.max = std::numeric_limits<double>::quiet_NaN();
  double sum = 0, squares = 0;
  std::vector<float> host;
  for_each_rows(dataset.shape(), [&](const h5::Box& box) {
    read_box(dataset, box, host);
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

std::vector<float> first_elements(const Checkpoint& c, const std::string& param, StateKind kind, int64_t count) {
  const h5::File index = open_index(c);
  const h5::Dataset dataset = index.dataset(dataset_name(param, kind));
  const Shape& shape = dataset.shape();
  const int64_t width = shape.elements() / std::max<int64_t>(shape[0], 1);
  const int64_t rows = std::min(shape[0], (count + width - 1) / std::max<int64_t>(width, 1));
  std::vector<float> host;
  read_box(dataset, rows_of(shape, 0, rows), host);
  host.resize(std::min(host.size(), static_cast<size_t>(count)));
  return host;
}

std::vector<StoredFragment> fragments_of(const Checkpoint& c, const std::string& param, StateKind kind) {
  const CheckpointParam* p = c.manifest().parameter(param);
  FP_CHECK(p != nullptr, "{}: no parameter {}", c.folder().string(), param);
  return read_fragments(open_index(c), *p, kind);
}

namespace {

// Compares the fingerprints of what `read(param, kind, box, data)` gives with the manifest's; lines naming those that
// differ.
template <class Read>
std::string differing(const Checkpoint& c, const Read& read) {
  std::vector<float> host;
  std::string bad;
  for (const CheckpointParam& p : c.manifest().parameters)
    for (const auto& [kind, expected] : p.fingerprints) {
      uint64_t sum = 0;
      for_each_rows(p.shape, [&](const h5::Box& box) {
        host.resize(static_cast<size_t>(box.count.elements()));
        const h5::Window dense{box.count, rows_of(box.count, 0, 0).start};
        read(p, kind, box, host.data(), dense);
        sum += fingerprint(p.shape, box, host.data(), dense);
      });
      if (sum != expected) bad += fmt::format("\n  {} of {}", name_of(kind), p.name);
    }
  return bad;
}

}  // namespace

void verify_tensors(const Checkpoint& c) {
  const auto require = [&](const char* what, const std::string& bad) {
    if (!bad.empty())
      throw DataError(
          fmt::format("{}: the {} of the index do not lead to what was saved:{}", c.folder().string(), what, bad));
  };
  {
    const h5::File index = open_index(c);
    require("virtual datasets", differing(c, [&](const CheckpointParam& p, StateKind kind, const h5::Box& box,
                                                 float* data, const h5::Window& window) {
              const h5::Dataset dataset = index.dataset(dataset_name(p.name, kind));
              if (!(dataset.shape() == p.shape))
                throw DataError(fmt::format("{}: {} has shape {} in the index", c.folder().string(), p.name,
                                            dataset.shape().str()));
              dataset.read(box, data, window);
            }));
  }  // HDF5 has the rank files open no longer
  FragmentReader reader(c);
  require("tables", differing(c, [&](const CheckpointParam& p, StateKind kind, const h5::Box& box, float* data,
                                     const h5::Window& window) { reader.read(p.name, kind, box, data, window); }));
}

CheckpointDifference compare(const Checkpoint& a, const Checkpoint& b) {
  CheckpointDifference d;
  only_in(a, b, d);
  only_in(b, a, d);
  const h5::File index_a = open_index(a), index_b = open_index(b);
  for (const CheckpointParam& p : a.manifest().parameters) {
    const CheckpointParam* other = b.manifest().parameter(p.name);
    if (other == nullptr) continue;
    if (!(p.shape == other->shape)) {
      d.structure.push_back(fmt::format("{}: {} and {}", p.name, p.shape.str(), other->shape.str()));
      continue;
    }
    for (const StateKind kind : kStateKinds) {
      const bool in_a = p.fingerprints.contains(kind), in_b = other->fingerprints.contains(kind);
      if (in_a != in_b)
        d.structure.push_back(
            fmt::format("{} of {} is only in {}", name_of(kind), p.name, (in_a ? a : b).folder().string()));
      if (!in_a || !in_b) continue;
      ++d.compared;
      const std::string name = dataset_name(p.name, kind);
      TensorDifference t = compare_tensor(index_a.dataset(name), index_b.dataset(name), p.name, kind);
      if (t.differing > 0) d.tensors.push_back(std::move(t));
    }
  }
  compare_state(a.manifest(), b.manifest(), d);
  return d;
}

}  // namespace fp
