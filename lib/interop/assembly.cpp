#include "interop/assembly.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace fp {
namespace {

uint64_t bytes_of(const StoredTensor& t) {
  uint64_t bytes = size_of(element_type(t.dtype).value());
  for (const int64_t d : t.shape) bytes *= static_cast<uint64_t>(d);
  return bytes;
}

bool same_bytes(const StoredPart& a, const StoredPart& b) {
  if (a.tensor->dtype != b.tensor->dtype || a.tensor->shape != b.tensor->shape) return false;
  const uint64_t bytes = bytes_of(*a.tensor);
  std::vector<std::byte> x(std::min<uint64_t>(bytes, uint64_t{1} << 20)), y(x.size());
  for (uint64_t at = 0; at < bytes; at += x.size()) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(x.size(), bytes - at));
    a.files->read(a.tensor->file, a.tensor->offset + at, std::span(x).first(n));
    b.files->read(b.tensor->file, b.tensor->offset + at, std::span(y).first(n));
    if (std::memcmp(x.data(), y.data(), n) != 0) return false;
  }
  return true;
}

}  // namespace

std::string text_of(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::vector<Slice> fragments_of(int64_t extent, const std::vector<int64_t>& ratios, size_t parts) {
  const std::vector<int64_t> lengths = ratios.empty() ? std::vector<int64_t>{1} : ratios;
  const int64_t sum = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), n = static_cast<int64_t>(parts);
  if (sum == 0 || extent % sum != 0) return {};
  std::vector<Slice> slices;
  int64_t begin = 0, at = 0;
  for (const int64_t ratio : lengths) {
    const int64_t length = ratio * (extent / sum);
    if (length % n != 0) return {};
    for (int64_t p = 0; p < n; ++p)
      slices.push_back({begin + p * (length / n), length / n, static_cast<size_t>(p), at});
    begin += length;
    at += length / n;
  }
  return slices;
}

Assembly::Assembly(StoredAs as, std::vector<StoredPart> parts) : as_(std::move(as)), parts_(std::move(parts)) {
  FP_CHECK(!parts_.empty(), "{} has no parts", as_.name());
  if (as_.pattern == PartPattern::unique && parts_.size() > 1)
    throw DataError(fmt::format("{} is in {} and in {}; legal: one of them (the rule's pattern is unique)", as_.name(),
                                parts_[0].name(), parts_[1].name()));
  if (as_.pattern == PartPattern::vocabulary)
    stack_rows();
  else if (as_.pattern == PartPattern::fragment && parts_.size() > 1)
    cut_into_fragments();
  else
    for (const StoredPart& p : parts_)
      if (p.tensor->shape != as_.shape) refuse(p, fmt::format("the model needs {}", text_of(as_.shape)));
  check_types();
}

void Assembly::refuse(const StoredPart& part, const std::string& what) const {
  const std::string where = parts_.size() > 1 ? " in " + part.name() : "";
  throw DataError(fmt::format("{} is {}{}, {}", as_.name(), text_of(part.tensor->shape), where, what));
}

void Assembly::check_types() const {
  for (const StoredPart& p : parts_)
    if (!element_type(p.tensor->dtype))
      throw DataError(fmt::format("{} has dtype {}; legal: F32, F16, BF16", as_.name(), p.tensor->dtype));
}

bool Assembly::fragment_fits(int dim, const StoredPart& part) const {
  std::vector<int64_t> shape = as_.shape;
  if (dim >= static_cast<int>(shape.size())) return false;
  int64_t& extent = shape[static_cast<size_t>(dim)];
  const auto n = static_cast<int64_t>(parts_.size());
  if (extent % n != 0) return false;
  extent /= n;
  return part.tensor->shape == shape;
}

void Assembly::cut_into_fragments() {
  const StoredPart& first = parts_.front();
  cut_ = as_.dim >= 0 ? static_cast<int>(as_.dim) : fragment_fits(1, first) ? 1 : 0;
  const std::string dim = as_.dim >= 0 ? fmt::format("dimension {}", as_.dim) : "a dimension";
  for (const StoredPart& p : parts_)
    if (!fragment_fits(cut_, p))
      refuse(p, fmt::format("the model needs one of {} equal fragments of {} along {}", parts_.size(),
                            text_of(as_.shape), dim));
  slices_ = fragments_of(as_.shape[static_cast<size_t>(cut_)], as_.ratios, parts_.size());
  if (slices_.empty())
    refuse(first, fmt::format("and {} cannot be cut into sub-fragments of {} for {} parts: they do not divide",
                              text_of(as_.shape), fmt::join(as_.ratios, ":"), parts_.size()));
}

void Assembly::stack_rows() {
  int64_t begin = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const std::vector<int64_t>& shape = parts_[i].tensor->shape;
    if (shape.size() != as_.shape.size() || (shape.size() == 2 && shape[1] != as_.shape[1]))
      refuse(parts_[i], fmt::format("the model needs rows of {}", text_of(as_.shape)));
    const int64_t rows = std::min(shape[0], as_.shape[0] - begin);  // the rest is padding
    if (rows > 0) slices_.push_back({begin, rows, i, 0});
    begin += rows;
  }
  if (begin < as_.shape[0]) refuse(parts_.back(), fmt::format("the model needs {} rows in all", as_.shape[0]));
}

void Assembly::require_equal_parts() const {
  if (as_.pattern != PartPattern::replicated) return;
  for (size_t i = 1; i < parts_.size(); ++i)
    if (!same_bytes(parts_[0], parts_[i]))
      throw DataError(fmt::format("{} is not the same in {} and in {}, and the rule's pattern is replicated",
                                  as_.name(), parts_[0].name(), parts_[i].name()));
}

void Assembly::read(const Box& box, float* data, const h5::Window& window) {
  const bool matrix = box.count.rank() == 2;
  const int64_t rows = box.count[0], columns = matrix ? box.count[1] : 1, column = matrix ? box.start[1] : 0;
  const int64_t step = matrix ? window.dims[1] : 1;
  float* first = data + window.start[0] * step + (matrix ? window.start[1] : 0);
  switch (as_.transform) {
    case TensorTransform::same:
      return read_stored(box.start[0], rows, column, columns, first, step);
    case TensorTransform::rotary_pairs:
      for (int64_t i = 0; i < rows; ++i)
        read_stored(rotary_pair_row(box.start[0] + i, as_.head_dim), 1, column, columns, first + i * step, step);
      return;
    case TensorTransform::transposed:
      std::vector<float> stored(static_cast<size_t>(rows));
      for (int64_t j = 0; j < columns; ++j) {
        read_stored(column + j, 1, box.start[0], rows, stored.data(), rows);
        for (int64_t i = 0; i < rows; ++i) first[i * step + j] = stored[static_cast<size_t>(i)];
      }
  }
}

void Assembly::read_stored(int64_t row, int64_t rows, int64_t column, int64_t columns, float* out, int64_t step) {
  if (as_.pattern == PartPattern::average && parts_.size() > 1) return read_mean(row, rows, column, columns, out, step);
  if (slices_.empty()) return read_part(parts_.front(), row, rows, column, columns, out, step);
  const int64_t first = cut_ == 0 ? row : column, last = first + (cut_ == 0 ? rows : columns);
  for (const Slice& s : slices_) {
    const int64_t begin = std::max(first, s.begin), end = std::min(last, s.begin + s.count);
    if (begin >= end) continue;
    const int64_t at = s.at + begin - s.begin;
    if (cut_ == 0)
      read_part(parts_[s.part], at, end - begin, column, columns, out + (begin - row) * step, step);
    else
      read_part(parts_[s.part], row, rows, at, end - begin, out + (begin - column), step);
  }
}

void Assembly::read_part(const StoredPart& part, int64_t row, int64_t rows, int64_t column, int64_t columns, float* out,
                         int64_t step) {
  const int64_t width = columns_of(*part.tensor);
  if (columns == width && columns == step)  // contiguous in both
    return read_elements(part, row * width, std::span(out, static_cast<size_t>(rows * columns)));
  for (int64_t i = 0; i < rows; ++i)
    read_elements(part, (row + i) * width + column, std::span(out + i * step, static_cast<size_t>(columns)));
}

// Sums in fp64, so that the mean of equal parts equals each of them.
void Assembly::read_mean(int64_t row, int64_t rows, int64_t column, int64_t columns, float* out, int64_t step) {
  values_.resize(static_cast<size_t>(rows * columns));
  std::vector<double> sums(values_.size(), -0.0);
  for (const StoredPart& part : parts_) {
    read_part(part, row, rows, column, columns, values_.data(), columns);
    std::transform(sums.begin(), sums.end(), values_.begin(), sums.begin(), std::plus<>());
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[i * step + j] =
          static_cast<float>(sums[static_cast<size_t>(i * columns + j)] / static_cast<double>(parts_.size()));
}

void Assembly::read_elements(const StoredPart& part, int64_t index, std::span<float> out) {
  const ElementType type = element_type(part.tensor->dtype).value();
  raw_.resize(out.size() * size_of(type));
  part.files->read(part.tensor->file, part.tensor->offset + static_cast<uint64_t>(index) * size_of(type), raw_);
  to_floats(type, raw_, out);
}

bool equal_values(Assembly& a, Assembly& b) {
  const auto logical = [](const StoredAs& s) {
    std::vector<int64_t> shape = s.shape;
    if (s.transform == TensorTransform::transposed) std::swap(shape[0], shape[1]);
    return shape;
  };
  const std::vector<int64_t> shape = logical(a.as());
  if (shape != logical(b.as())) return false;
  const int64_t width = shape.size() == 2 ? shape[1] : 1;
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(width, 1));
  std::vector<float> x, y;
  for (int64_t row = 0; row < shape[0]; row += step) {
    const int64_t rows = std::min(step, shape[0] - row);
    x.resize(static_cast<size_t>(rows * width));
    y.resize(x.size());
    const Box box = shape.size() == 2 ? Box{{row, 0}, {rows, width}} : Box{{row}, {rows}};
    const h5::Window window = shape.size() == 2 ? h5::Window{{rows, width}, {0, 0}} : h5::Window{{rows}, {0}};
    a.read(box, x.data(), window);
    b.read(box, y.data(), window);
    if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace fp
