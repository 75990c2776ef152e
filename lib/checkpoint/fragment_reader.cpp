#include "checkpoint/fragment_reader.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include "base/parallel.h"
#include "checkpoint/stored_elements.h"

namespace fp {
namespace {

constexpr size_t kOpenFiles = 128;
constexpr int64_t kSlice = int64_t{1} << 16;    // least number of elements that a thread reads
constexpr int64_t kWorthSkipping = 2048;        // unwanted elements of a row whose reading costs as much as a call
constexpr int64_t kScratch = int64_t{1} << 16;  // elements, or one row

// A box of a tensor as a 2-D range: all dimensions beyond the first are flattened to columns. Of these only the second
// is ever split.
struct Plane {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

Plane plane_of(const Shape& logical, const Box& box) {
  const bool vector = logical.rank() < 2;
  const int64_t inner = vector ? 1 : logical.elements() / std::max<int64_t>(1, logical[0] * logical[1]);
  return {box.start[0], box.count[0], vector ? 0 : box.start[1] * inner, vector ? 1 : box.count[1] * inner};
}

Plane common(const Plane& a, const Plane& b) {
  Plane c{std::max(a.row, b.row), 0, std::max(a.column, b.column), 0};
  c.rows = std::max<int64_t>(0, std::min(a.row + a.rows, b.row + b.rows) - c.row);
  c.columns = std::max<int64_t>(0, std::min(a.column + a.columns, b.column + b.columns) - c.column);
  return c;
}

void read_elements(const ReadableFile& file, DType dtype, float* to, int64_t elements, int64_t at) {
  file.read_exactly(static_cast<uint64_t>(at), stored_in(to, elements, dtype),
                    static_cast<size_t>(stored_bytes(elements, dtype)));
  from_stored(to, elements, dtype);
}

// Calls work(begin, end) for ranges of rows in several threads: copying out of the page cache takes longer than
// fingerprinting. `elements`: per row.
template <class Work>
void parallel_rows(int64_t rows, int64_t elements, const Work& work) {
  std::mutex mutex;
  std::exception_ptr problem;
  parallel_for(rows, std::max<int64_t>(1, kSlice / elements), [&](int64_t begin, int64_t end) {
    try {
      work(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      problem = std::current_exception();
    }
  });
  if (problem != nullptr) std::rethrow_exception(problem);
}

}  // namespace

FragmentReader::FragmentReader(const Checkpoint& c) : checkpoint_(c), index_(c) {}

const CheckpointParam& FragmentReader::parameter(const std::string& name) const {
  const CheckpointParam* stored = checkpoint_.manifest().parameter(name);
  if (stored == nullptr)
    throw DataError(fmt::format("{}: {} is not in the checkpoint", checkpoint_.folder().string(), name));
  return *stored;
}

void FragmentReader::look_up(const std::string& param, const std::string& state) {
  const std::string name = dataset_name(param, state);
  if (name == tensor_) return;
  tensor_.clear();
  const CheckpointParam& stored = parameter(param);
  shape_ = stored.shape;
  parts_.clear();
  const std::vector<StoredFragment> fragments = index_.fragments(stored, state);
  dtype_ = stored.find(state)->dtype;
  for (const StoredFragment& f : fragments) parts_.push_back({f});
  std::ranges::sort(parts_, {}, [](const Part& p) { return p.where.box.start[0]; });
  int64_t end = 0;
  for (Part& p : parts_) p.rows_end = end = std::max(end, p.where.box.start[0] + p.where.box.count[0]);
  tensor_ = name;
}

const ReadableFile& FragmentReader::open(int rank) {
  const auto it = std::ranges::find(open_, rank, &RankFileReader::rank);
  if (it != open_.end()) {
    open_.splice(open_.begin(), open_, it);
    return open_.front().bytes;
  }
  if (open_.size() == kOpenFiles) open_.pop_back();
  open_.emplace_front(rank, checkpoint_.folder() / rank_file_name(rank));
  return open_.front().bytes;
}

// Reads the intersection of a part and the box.
void FragmentReader::read_part(const Part& part, const Box& box, float* data, const h5::Window& window) {
  const ReadableFile& file = open(part.where.rank);
  const int64_t offset = part.where.offset;
  const Plane from = plane_of(shape_, part.where.box), wanted = plane_of(shape_, box), both = common(from, wanted);
  const Plane memory = plane_of(shape_, {window.start, window.dims});
  const int64_t width = window.dims.elements() / window.dims[0];
  const auto in_file = [&](int64_t row, int64_t column) {
    return offset + stored_bytes((row - from.row) * from.columns + column - from.column, dtype_);
  };
  const auto in_memory = [&](int64_t row) {
    return data + (memory.row + row - wanted.row) * width + memory.column + both.column - wanted.column;
  };
  const bool whole_rows = both.columns == from.columns && both.columns == width;
  const bool skip = from.columns - both.columns > kWorthSkipping;
  parallel_rows(both.rows, both.columns, [&](int64_t begin, int64_t end) {
    begin += both.row, end += both.row;
    if (whole_rows)
      return read_elements(file, dtype_, in_memory(begin), (end - begin) * width, in_file(begin, both.column));
    if (skip) {
      for (; begin < end; ++begin)
        read_elements(file, dtype_, in_memory(begin), both.columns, in_file(begin, both.column));
      return;
    }
    const int64_t step = std::max<int64_t>(1, kScratch / from.columns);
    std::vector<float> scratch(static_cast<size_t>(std::min(step, end - begin) * from.columns));
    for (; begin < end; begin += step) {
      const int64_t rows = std::min(step, end - begin);
      read_elements(file, dtype_, scratch.data(), rows * from.columns, in_file(begin, from.column));
      for (int64_t i = 0; i < rows; ++i)
        std::copy_n(scratch.begin() + i * from.columns + both.column - from.column, both.columns, in_memory(begin + i));
    }
  });
}

void FragmentReader::read(const std::string& param, const std::string& state, const Box& box, float* data,
                          const h5::Window& window) {
  look_up(param, state);
  const Plane wanted = plane_of(shape_, box);
  int64_t found = 0;
  auto part = std::ranges::upper_bound(parts_, wanted.row, {}, &Part::rows_end);
  for (; part != parts_.end() && part->where.box.start[0] < wanted.row + wanted.rows; ++part) {
    const Plane both = common(plane_of(shape_, part->where.box), wanted);
    if (both.rows * both.columns == 0) continue;
    read_part(*part, box, data, window);
    found += both.rows * both.columns;
  }
  FP_CHECK(found == box.count.elements(), "{}: {} of {} elements of {}", checkpoint_.folder().string(), found,
           box.count.elements(), tensor_);
}

}  // namespace fp
