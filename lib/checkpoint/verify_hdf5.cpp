#include "checkpoint/verify_hdf5.h"

#include <algorithm>
#include <utility>

#include "checkpoint/fragment_index.h"
#include "checkpoint/index.h"
#include "checkpoint/inspect.h"

namespace fp {
namespace {

constexpr size_t kOpenRankFiles = 64;

// Fragments as encoded rows in a canonical order.
using Rows = std::vector<std::vector<uint64_t>>;
Rows sorted_rows(const std::vector<StoredFragment>& fragments, bool with_offsets) {
  Rows rows;
  for (StoredFragment f : fragments) {
    if (!with_offsets) f.offset = 0;
    rows.push_back(rows_of({f}));
  }
  std::ranges::sort(rows);
  return rows;
}

// Checks that each tensor's mappings are its fragments, and that each fragment lies at its offset in the rank file.
class Comparison {
 public:
  explicit Comparison(const Checkpoint& c)
      : checkpoint_(c), fragments_(c), index_(open_hdf5(c.folder() / CheckpointManifest::kIndexName)) {}

  void compare(const CheckpointParam& p, const std::string& state) {
    const std::vector<StoredFragment> parts = fragments_.fragments(p, state);
    require(sorted_rows(mapped_fragments(index_, p, state), false) == sorted_rows(parts, false), p, state);
    require(sorted_rows(read_fragments(index_, p, state), true) == sorted_rows(parts, true), p, state);
    for (const StoredFragment& part : parts)
      if (const h5::File& file = rank_file(part.rank); offset_of(file, p, state, part) != part.offset)
        throw DataError(fmt::format("{}: {} does not begin at byte {}", file.path().string(),
                                    dataset_name(p.name, state, part.number), part.offset));
  }

 private:
  void require(bool same, const CheckpointParam& p, const std::string& state) const {
    if (!same)
      throw DataError(fmt::format("{}: {} has other parts than in {}", index_.path().string(),
                                  dataset_name(p.name, state), CheckpointManifest::kTableName));
  }
  const h5::File& rank_file(int rank) {
    const auto found = files_.find(rank);
    if (found != files_.end()) return found->second;
    if (files_.size() == kOpenRankFiles) files_.clear();
    return files_.emplace(rank, open_hdf5(checkpoint_.folder() / rank_file_name(rank))).first->second;
  }

  const Checkpoint& checkpoint_;
  FragmentIndex fragments_;
  h5::File index_;
  std::map<int, h5::File> files_;
};

}  // namespace

void verify_with_hdf5(const Checkpoint& c) {
  {
    Comparison comparison(c);
    for (const CheckpointParam& p : c.manifest().parameters)
      for (const StoredState& s : p.states) comparison.compare(p, s.name);
  }  // closes the rank files: HDF5 finds no virtual data in files that are already open
  const h5::File index = open_hdf5(c.folder() / CheckpointManifest::kIndexName);
  const std::string bad = differing_tensors(
      c, [&](const CheckpointParam& p, const std::string& state, const Box& box, float* data,
             const h5::Window& window) { index.dataset(dataset_name(p.name, state)).read(box, data, window); });
  if (!bad.empty())
    throw DataError(fmt::format("{}: the virtual datasets of {} lead to other tensors than were saved:{}",
                                c.folder().string(), CheckpointManifest::kIndexName, bad));
}

}  // namespace fp
