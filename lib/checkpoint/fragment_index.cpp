#include "checkpoint/fragment_index.h"

#include "checkpoint/index.h"
#include "checkpoint/stored_elements.h"
#include "io/retry.h"

namespace fp {
namespace {

h5::File open_index(const Checkpoint& c) { return open_hdf5(c.folder() / CheckpointManifest::kIndexName); }

// A manipulated shape must not make the loader allocate terabytes: tensors cannot be larger than the files, and twice
// as large in memory.
void require_tensors_fit_files(const Checkpoint& c, const std::map<int, uint64_t>& bytes_of_ranks) {
  uint64_t left = 0;
  for (const auto& [rank, bytes] : bytes_of_ranks) left += bytes;
  for (const CheckpointParam& p : c.manifest().parameters) {
    for (const StoredState& s : p.states) {
      const auto bytes = static_cast<uint64_t>(stored_bytes(p.shape.elements(), s.dtype));
      if (bytes > left)
        throw DataError(
            fmt::format("{}: its rank files are too small for {} of {}, of shape {}, and the tensors before it",
                        c.folder().string(), s.name, p.name, p.shape.str()));
      left -= bytes;
    }
  }
}

}  // namespace

OlderFormatError::OlderFormatError(const std::filesystem::path& checkpoint)
    : ConfigError(fmt::format(
          "{0}: was saved by a version of fptrain that did not write {1}, so only HDF5 can locate its tensors, and a "
          "manipulated file can crash HDF5 or lead it astray. If you trust its source: add --hdf5, or rewrite it with "
          "`fptrain checkpoint consolidate --hdf5 {0} --out COPY`",
          checkpoint.string(), CheckpointManifest::kTableName)) {}

FragmentIndex::FragmentIndex(const Checkpoint& c) : checkpoint_(c) {
  for (const CheckpointFile& f : c.manifest().files)
    if (const auto rank = rank_of_file(f.name)) bytes_[*rank] = f.bytes;
  require_tensors_fit_files(c, bytes_);
  if (c.manifest().file(CheckpointManifest::kTableName) != nullptr) {
    table_ = FragmentTable::read(c.folder(), c.manifest());
    return;
  }
  if (!c.allows_hdf5()) throw OlderFormatError(c.folder());
  index_ = with_retries([&] { return open_index(c); });
}

std::vector<StoredFragment> FragmentIndex::fragments_by_hdf5(const CheckpointParam& param,
                                                             const std::string& state) const {
  return with_retries([&] {
    try {
      return read_fragments(*index_, param, state);
    } catch (const InfrastructureError&) {
      index_ = open_index(checkpoint_);  // for the next attempt
      throw;
    }
  });
}

void FragmentIndex::require_inside_files(const std::vector<StoredFragment>& fragments, const std::string& tensor,
                                         DType dtype) const {
  for (const StoredFragment& f : fragments) {
    const auto file = bytes_.find(f.rank);
    if (file == bytes_.end())
      throw DataError(fmt::format("{}: the index places a part of {} in {}, which is not a file of the checkpoint",
                                  checkpoint_.folder().string(), tensor, rank_file_name(f.rank)));
    const auto bytes = static_cast<uint64_t>(stored_bytes(f.box.count.elements(), dtype));
    const auto offset = static_cast<uint64_t>(f.offset);
    if (f.offset < 0 || bytes > file->second || offset > file->second - bytes)
      throw DataError(fmt::format("{}: the index places {} bytes of {} at byte {} of {}, which has {}",
                                  checkpoint_.folder().string(), bytes, tensor, f.offset, rank_file_name(f.rank),
                                  file->second));
  }
}

std::vector<StoredFragment> FragmentIndex::fragments(const CheckpointParam& param, const std::string& state) const {
  const std::string tensor = dataset_name(param.name, state);
  const StoredState* stored = param.find(state);
  if (stored == nullptr)
    throw DataError(fmt::format("{}: has no {} of {}", checkpoint_.folder().string(), state, param.name));
  std::vector<StoredFragment> parts = table_ ? table_->fragments(param, state) : fragments_by_hdf5(param, state);
  if (const std::string fault = tiling_error(param.shape, parts); !fault.empty())
    throw DataError(
        fmt::format("{}: the parts of {} are not the whole tensor: {}", checkpoint_.folder().string(), tensor, fault));
  require_inside_files(parts, tensor, stored->dtype);
  return parts;
}

}  // namespace fp
