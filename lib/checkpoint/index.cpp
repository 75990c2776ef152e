#include "checkpoint/index.h"

#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/shown.h"
#include "checkpoint/plain_file.h"
#include "io/filesystem.h"
#include "io/storage.h"

namespace fp {
namespace {

// Hashes the file before comparing it: a file that changes in between then no longer matches its hash.
CheckpointFile read_back(const std::filesystem::path& path, const std::vector<IndexedParam>& parameters) {
  CheckpointFile file{path.filename().string(), size_of_file(path).value_or(0), hash_file(path)};
  const h5::File index = h5::File::open(path);
  for (const IndexedParam& p : parameters)
    for (size_t i = 0; i < p.fragments.size(); ++i) {
      const std::string& state = p.param.states[i].name;
      if (index.find_attribute(p.param.name, state) != rows_of(p.fragments[i]))
        throw DataError(
            fmt::format("{}: the table of {} of {} is not what was written: the memory, the disk or another "
                        "process altered it",
                        path.string(), state, p.param.name));
    }
  return file;
}

std::string where_in(const h5::File& index, const CheckpointParam& param, const std::string& state) {
  return index.path().string() + ": " + dataset_name(param.name, state);
}

// Returns the fragment that a mapping leads to. Only the rank file has its offset.
StoredFragment fragment_of(const h5::Mapping& m, const CheckpointParam& param, const std::string& state,
                           const std::string& where) {
  const std::optional<int> rank = rank_of_file(m.file);
  int number = -1;
  const size_t slash = m.dataset.rfind('/') + 1;
  std::from_chars(m.dataset.data() + slash, m.dataset.data() + m.dataset.size(), number);
  if (!rank || number < 0 || m.dataset != dataset_name(param.name, state, number))
    throw DataError(fmt::format("{}: leads to '{}' in '{}'; legal: '{}' in {}, its numbers any", where,
                                shown(m.dataset), shown(m.file), dataset_name(param.name, state, 0),
                                rank_file_name(0)));
  return {*rank, number, m.box, 0};
}

// `param` must have the state.
void require_dtype(const h5::Dataset& dataset, const CheckpointParam& param, const std::string& state,
                   const std::string& where) {
  const DType stored = dataset.dtype(), expected = param.find(state)->dtype;
  if (stored != expected)
    throw DataError(fmt::format("{}: has elements of {}, should have {}", where, name_of(stored), name_of(expected)));
}

}  // namespace

CheckpointFile write_index(const std::filesystem::path& path, const std::vector<IndexedParam>& parameters) {
  storage::announce(storage::Step::create_file, path);
  h5::File index = h5::File::create(path);
  for (const IndexedParam& p : parameters)
    for (size_t i = 0; i < p.fragments.size(); ++i) {
      const std::string& state = p.param.states[i].name;
      const std::vector<StoredFragment>& fragments = p.fragments[i];
      const std::string fault = tiling_error(p.param.shape, fragments);
      FP_CHECK(fault.empty(), "{} of {}: {}", state, p.param.name, fault);
      std::vector<h5::Mapping> mappings;
      for (const StoredFragment& f : fragments)
        mappings.push_back({f.box, rank_file_name(f.rank), dataset_name(p.param.name, state, f.number)});
      index.create_virtual(dataset_name(p.param.name, state), p.param.shape, mappings, p.param.states[i].dtype);
      index.set_attribute(p.param.name, state, rows_of(fragments));
    }
  storage::announce(storage::Step::close, path);
  index.close();
  CheckpointFile file = read_back(path, parameters);
  storage::sync(path);
  return file;
}

h5::File open_hdf5(const std::filesystem::path& path) {
  if (!size_of_plain_file(path)) throw DataError(fmt::format("{}: is missing", path.string()));
  return h5::File::open(path);
}

std::vector<StoredFragment> mapped_fragments(const h5::File& index, const CheckpointParam& param,
                                             const std::string& state) {
  const std::string where = where_in(index, param, state);
  const h5::Dataset dataset = index.dataset(dataset_name(param.name, state));
  if (!dataset.is_virtual()) throw DataError(fmt::format("{}: is not a virtual dataset", where));
  if (!(dataset.shape() == param.shape))
    throw DataError(fmt::format("{}: has shape {}, should have {}", where, dataset.shape().str(), param.shape.str()));
  require_dtype(dataset, param, state, where);
  std::vector<StoredFragment> fragments;
  for (const h5::Mapping& m : dataset.mappings()) fragments.push_back(fragment_of(m, param, state, where));
  return fragments;
}

int64_t offset_of(const h5::File& rank_file, const CheckpointParam& param, const std::string& state,
                  const StoredFragment& f) {
  const h5::Dataset dataset = rank_file.dataset(dataset_name(param.name, state, f.number));
  if (dataset.is_virtual() || !(dataset.shape() == f.box.count))
    throw DataError(fmt::format("{}: {} is not a dataset of shape {} of its own", rank_file.path().string(),
                                dataset_name(param.name, state, f.number), f.box.count.str()));
  require_dtype(dataset, param, state, rank_file.path().string() + ": " + dataset_name(param.name, state, f.number));
  return dataset.file_offset();
}

std::vector<StoredFragment> read_fragments(const h5::File& index, const CheckpointParam& param,
                                           const std::string& state) {
  if (const auto table = index.find_attribute(param.name, state))
    return fragments_in(*table, param.shape.rank(), where_in(index, param, state));
  std::vector<StoredFragment> fragments = mapped_fragments(index, param, state);
  for (StoredFragment& f : fragments) {
    f.offset = offset_of(open_hdf5(index.path().parent_path() / rank_file_name(f.rank)), param, state, f);
  }
  return fragments;
}

}  // namespace fp
