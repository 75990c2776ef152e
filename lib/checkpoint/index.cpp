#include "checkpoint/index.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/filesystem.h"
#include "checkpoint/storage.h"

namespace fp {
namespace {

constexpr size_t kColumns = 3;  // of a fragment's row in the table, before its box: rank, number, offset

// Two of the boxes that have an element in common; nothing: none have. Sweeps over the rows, in n log n steps.
std::optional<std::pair<size_t, size_t>> overlapping(const std::vector<StoredFragment>& fragments) {
  const auto row_end = [&](size_t i) { return fragments[i].box.start[0] + fragments[i].box.count[0]; };
  const auto columns = [&](size_t i) {
    const h5::Box& box = fragments[i].box;
    const bool matrix = box.start.rank() > 1;
    return std::pair(matrix ? box.start[1] : 0, matrix ? box.start[1] + box.count[1] : 1);
  };
  std::vector<size_t> order(fragments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t x, size_t y) { return fragments[x].box.start[0] < fragments[y].box.start[0]; });
  std::map<int64_t, size_t> open;  // boxes that hold the present row, by first column
  std::set<std::pair<int64_t, size_t>> ends;
  for (const size_t i : order) {
    const auto [first, end] = columns(i);
    while (!ends.empty() && ends.begin()->first <= fragments[i].box.start[0]) {
      open.erase(columns(ends.begin()->second).first);
      ends.erase(ends.begin());
    }
    const auto next = open.lower_bound(first);
    if (next != open.end() && next->first < end) return std::pair(i, next->second);
    if (next != open.begin() && columns(std::prev(next)->second).second > first)
      return std::pair(i, std::prev(next)->second);
    open.emplace(first, i);
    ends.emplace(row_end(i), i);
  }
  return std::nullopt;
}

// The fragments must tile the logical tensor: nothing missing, nothing twice.
void check_tiling(const IndexedParam& c, StateKind kind, const std::vector<StoredFragment>& fragments) {
  int64_t elements = 0;
  for (const StoredFragment& f : fragments) elements += f.box.count.elements();
  if (const auto both = overlapping(fragments))
    throw InternalError(fmt::format("{} and {} both hold a part of {} of {}",
                                    rank_file_name(fragments[both->first].rank),
                                    rank_file_name(fragments[both->second].rank), name_of(kind), c.param.name));
  FP_CHECK(elements == c.param.shape.elements(), "the ranks wrote {} of the {} elements of {} of {}", elements,
           c.param.shape.elements(), name_of(kind), c.param.name);
}

// The table of a tensor's fragments: an attribute of the parameter's group, named after the kind.
std::vector<uint64_t> table_of(const std::vector<StoredFragment>& fragments) {
  std::vector<uint64_t> table;
  for (const StoredFragment& f : fragments) {
    table.push_back(static_cast<uint64_t>(f.rank));
    table.push_back(static_cast<uint64_t>(f.number));
    table.push_back(static_cast<uint64_t>(f.offset));
    for (const Shape& s : {f.box.start, f.box.count})
      for (int i = 0; i < s.rank(); ++i) table.push_back(static_cast<uint64_t>(s[i]));
  }
  return table;
}

std::vector<StoredFragment> fragments_in(const std::vector<uint64_t>& table, int dimensions, const std::string& where) {
  const size_t columns = kColumns + 2 * static_cast<size_t>(dimensions);
  if (table.size() % columns != 0)
    throw DataError(fmt::format("{}: a table of {} numbers in rows of {}", where, table.size(), columns));
  std::vector<StoredFragment> fragments;
  for (size_t row = 0; row < table.size(); row += columns) {
    const auto at = [&](size_t column) { return static_cast<int64_t>(table[row + column]); };
    StoredFragment f{static_cast<int>(at(0)), static_cast<int>(at(1)), {}, at(2)};
    for (size_t d = 0; d < static_cast<size_t>(dimensions); ++d) {
      f.box.start.push_back(at(kColumns + d));
      f.box.count.push_back(at(kColumns + static_cast<size_t>(dimensions) + d));
    }
    fragments.push_back(f);
  }
  return fragments;
}

// The number at `first` of a name.
int number_in(const std::string& name, size_t first, const std::string& where) {
  int number = -1;
  if (first < name.size()) std::from_chars(name.data() + first, name.data() + name.size(), number);
  if (number < 0) throw DataError(fmt::format("{}: maps '{}', which is not of the checkpoint", where, name));
  return number;
}

// An index without tables, as they were at first.
std::vector<StoredFragment> fragments_of(const h5::Dataset& dataset, const std::string& where) {
  std::vector<StoredFragment> fragments;
  for (const h5::Mapping& m : dataset.mappings())
    fragments.push_back({number_in(m.file, m.file.find('-') + 1, where),
                         number_in(m.dataset, m.dataset.rfind('/') + 1, where), m.box, -1});
  return fragments;
}

// The hash is taken first: the comparison then proves the file that it is of, or an altered one is found by it.
CheckpointFile read_back(const std::filesystem::path& path, const std::vector<IndexedParam>& parameters) {
  CheckpointFile file{path.filename().string(), size_of_file(path).value_or(0), hash_file(path)};
  const h5::File index = h5::File::open(path);
  for (const IndexedParam& p : parameters)
    for (const auto& [kind, fragments] : p.fragments)
      if (index.find_attribute(p.param.name, name_of(kind)) != table_of(fragments))
        throw DataError(
            fmt::format("{}: the table of {} of {} is not what was written: the memory, the disk or another "
                        "process altered it",
                        path.string(), name_of(kind), p.param.name));
  return file;
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank-{:05d}.h5", rank); }

std::string dataset_name(const std::string& param, StateKind kind) {
  return fmt::format("{}/{}", param, name_of(kind));
}

std::string dataset_name(const std::string& param, StateKind kind, int fragment) {
  return fmt::format("{}/{}/{}", param, name_of(kind), fragment);
}

CheckpointFile write_index(const std::filesystem::path& path, const std::vector<IndexedParam>& parameters) {
  storage::announce(storage::Step::create_file, path);
  h5::File index = h5::File::create(path);
  for (const IndexedParam& p : parameters)
    for (const auto& [kind, fragments] : p.fragments) {
      check_tiling(p, kind, fragments);
      std::vector<h5::Mapping> mappings;
      for (const StoredFragment& f : fragments)
        mappings.push_back({f.box, rank_file_name(f.rank), dataset_name(p.param.name, kind, f.number)});
      index.create_virtual(dataset_name(p.param.name, kind), p.param.shape, mappings);
      index.set_attribute(p.param.name, name_of(kind), table_of(fragments));
    }
  storage::announce(storage::Step::close, path);
  index.close();
  CheckpointFile file = read_back(path, parameters);
  storage::sync(path);
  return file;
}

std::vector<StoredFragment> read_fragments(const h5::File& index, const CheckpointParam& param, StateKind kind) {
  const std::string where = index.path().string() + ": " + dataset_name(param.name, kind);
  if (const auto table = index.find_attribute(param.name, name_of(kind)))
    return fragments_in(*table, param.shape.rank(), where);
  const h5::Dataset dataset = index.dataset(dataset_name(param.name, kind));
  if (!(dataset.shape() == param.shape))
    throw DataError(fmt::format("{}: has shape {}, should have {}", where, dataset.shape().str(), param.shape.str()));
  return fragments_of(dataset, where);
}

}  // namespace fp
