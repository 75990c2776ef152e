#include "checkpoint/stored_fragment.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"

namespace fp {
namespace {

constexpr std::string_view kRankPrefix = "rank-";

// Returns two boxes that overlap, or nullopt. A sweep over the rows in O(n log n).
std::optional<std::pair<size_t, size_t>> overlapping(const std::vector<StoredFragment>& fragments) {
  const auto row_end = [&](size_t i) { return fragments[i].box.start[0] + fragments[i].box.count[0]; };
  const auto columns = [&](size_t i) {
    const Box& box = fragments[i].box;
    const bool matrix = box.start.rank() > 1;
    return std::pair(matrix ? box.start[1] : 0, matrix ? box.start[1] + box.count[1] : 1);
  };
  std::vector<size_t> order(fragments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t x, size_t y) { return fragments[x].box.start[0] < fragments[y].box.start[0]; });
  std::map<int64_t, size_t> open;  // boxes that contain the current row, by first column
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

// Returns whether a box is not empty, lies inside this shape and is split along the first two dimensions only.
bool is_part_of(const Shape& shape, const Box& box) {
  if (box.start.rank() != shape.rank() || box.count.rank() != shape.rank()) return false;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t start = box.start[d], count = box.count[d];
    if (start < 0 || count < 1 || count > shape[d] || start > shape[d] - count) return false;
    if (d > 1 && count != shape[d]) return false;
  }
  return true;
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("{}{:05d}.h5", kRankPrefix, rank); }

std::optional<int> rank_of_file(std::string_view file_name) {
  if (!file_name.starts_with(kRankPrefix)) return std::nullopt;
  int rank = -1;
  std::from_chars(file_name.data() + kRankPrefix.size(), file_name.data() + file_name.size(), rank);
  if (rank < 0 || rank_file_name(rank) != file_name) return std::nullopt;
  return rank;
}

std::string dataset_name(const std::string& param, const std::string& state) {
  return fmt::format("{}/{}", param, state);
}

std::string dataset_name(const std::string& param, const std::string& state, int fragment) {
  return fmt::format("{}/{}/{}", param, state, fragment);
}

std::vector<uint64_t> rows_of(const std::vector<StoredFragment>& fragments) {
  std::vector<uint64_t> rows;
  for (const StoredFragment& f : fragments) {
    rows.push_back(static_cast<uint64_t>(f.rank));
    rows.push_back(static_cast<uint64_t>(f.number));
    rows.push_back(static_cast<uint64_t>(f.offset));
    for (const Shape& s : {f.box.start, f.box.count})
      for (int i = 0; i < s.rank(); ++i) rows.push_back(static_cast<uint64_t>(s[i]));
  }
  return rows;
}

std::vector<StoredFragment> fragments_in(std::span<const uint64_t> rows, int dimensions, const std::string& where) {
  const size_t columns = row_length(dimensions), cut = static_cast<size_t>(dimensions);
  if (rows.size() % columns != 0)
    throw DataError(fmt::format("{}: a table of {} numbers in rows of {}", where, rows.size(), columns));
  const auto number = [&](size_t i, uint64_t most) {
    if (rows[i] > most)
      throw DataError(fmt::format("{}: number {} of row {} is {}; legal: at most {}", where, i % columns, i / columns,
                                  rows[i], most));
    return static_cast<int64_t>(rows[i]);
  };
  constexpr auto kMostInt = static_cast<uint64_t>(std::numeric_limits<int>::max());
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  std::vector<StoredFragment> fragments;
  fragments.reserve(rows.size() / columns);
  for (size_t row = 0; row < rows.size(); row += columns) {
    StoredFragment f{static_cast<int>(number(row, kMostInt)), static_cast<int>(number(row + 1, kMostInt)), {}, 0};
    f.offset = number(row + 2, kMost);
    for (size_t d = 0; d < cut; ++d) {
      f.box.start.push_back(number(row + 3 + d, kMost));
      f.box.count.push_back(number(row + 3 + cut + d, kMost));
    }
    fragments.push_back(f);
  }
  return fragments;
}

std::string tiling_error(const Shape& shape, const std::vector<StoredFragment>& fragments) {
  for (const StoredFragment& f : fragments)
    if (!is_part_of(shape, f.box))
      return fmt::format("{} has a part of shape {} at {}, which is not a legal part of a tensor of shape {}",
                         rank_file_name(f.rank), f.box.count.str(), f.box.start.str(), shape.str());
  if (const auto both = overlapping(fragments))
    return fmt::format("{} and {} hold overlapping parts of it", rank_file_name(fragments[both->first].rank),
                       rank_file_name(fragments[both->second].rank));
  int64_t elements = 0;
  for (const StoredFragment& f : fragments) elements += f.box.count.elements();
  if (elements != shape.elements())
    return fmt::format("the rank files hold {} of its {} elements", elements, shape.elements());
  return {};
}

}  // namespace fp
