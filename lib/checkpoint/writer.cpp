#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/filesystem.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/storage.h"

namespace fp {
namespace {

// What the ranks wrote of one parameter.
struct Collected {
  CheckpointParam param;
  std::map<StateKind, std::vector<h5::Mapping>> fragments;
};

// All parameters that were written, in the model's order.
std::vector<Collected> collect(const ParamTable& table, const std::vector<RankFile>& rank_files) {
  std::vector<Collected> all(table.size());
  for (const RankFile& of_rank : rank_files)
    for (const WrittenPart& p : of_rank.parts) {
      Collected& c = all.at(static_cast<size_t>(p.id));
      c.param.name = table[p.id].name;
      c.param.shape = table[p.id].shape;
      c.param.fingerprints[p.kind] += p.fingerprint;
      c.fragments[p.kind].push_back({p.box, of_rank.file.name, dataset_name(table[p.id], p), p.offset});
    }
  std::erase_if(all, [](const Collected& c) { return c.fragments.empty(); });
  return all;
}

// Two of the boxes that have an element in common; nothing: none have. Sweeps over the rows, in n log n steps.
std::optional<std::pair<size_t, size_t>> overlapping(const std::vector<h5::Mapping>& fragments) {
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
void check_tiling(const Collected& c, StateKind kind, const std::vector<h5::Mapping>& fragments) {
  int64_t elements = 0;
  for (const h5::Mapping& f : fragments) elements += f.box.count.elements();
  if (const auto both = overlapping(fragments))
    throw InternalError(fmt::format("{} and {} both hold a part of {} of {}", fragments[both->first].file,
                                    fragments[both->second].file, name_of(kind), c.param.name));
  FP_CHECK(elements == c.param.shape.elements(), "the ranks wrote {} of the {} elements of {} of {}", elements,
           c.param.shape.elements(), name_of(kind), c.param.name);
}

CheckpointFile write_index(const std::filesystem::path& hidden, const std::vector<Collected>& parameters) {
  const std::filesystem::path path = hidden / CheckpointManifest::kIndexName;
  storage::announce(storage::Step::create_file, path);
  h5::File index = h5::File::create(path);
  for (const Collected& c : parameters)
    for (const auto& [kind, fragments] : c.fragments) {
      check_tiling(c, kind, fragments);
      index.create_virtual(c.param.name + "/" + name_of(kind), c.param.shape, fragments);
    }
  storage::announce(storage::Step::close, path);
  index.close();
  storage::sync(path);
  return record_of(path);
}

CheckpointFile write_text(const std::filesystem::path& path, const std::string& text) {
  storage::write_file(path, text);
  return {path.filename().string(), text.size(), hash_bytes(text.data(), text.size())};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

std::filesystem::path begin_save(const std::filesystem::path& checkpoints_dir, int64_t step) {
  storage::make_folders(checkpoints_dir);
  const std::filesystem::path hidden = checkpoints_dir / (kHiddenPrefix + checkpoint_name(step));
  if (storage::is_folder(hidden)) storage::remove_folder(hidden);
  storage::make_folder(hidden);
  return hidden;
}

std::filesystem::path finish_save(const std::filesystem::path& hidden, const ParamTable& table,
                                  const std::vector<RankFile>& rank_files, const TrainState& state,
                                  const SaveOptions& options) {
  const std::vector<Collected> parameters = collect(table, rank_files);
  CheckpointManifest m;
  m.created_by = options.created_by;
  m.created_at = utc_now();
  m.step = state.step;
  m.consumed_samples = state.consumed_samples;
  m.last_loss = state.last_loss;
  m.extra = state.extra;
  m.mesh = options.mesh;
  for (const Collected& c : parameters) m.parameters.push_back(c.param);
  for (const RankFile& f : rank_files) m.files.push_back(f.file);
  m.files.push_back(write_index(hidden, parameters));
  m.files.push_back(write_text(hidden / CheckpointManifest::kConfigName, state.config_yaml));
  if (!state.tokenizer_json.empty())
    m.files.push_back(write_text(hidden / CheckpointManifest::kTokenizerName, state.tokenizer_json));
  for (const auto& [name, content] : state.carried) {
    FP_CHECK(name.find('/') == std::string::npos, "'{}' is not the name of a file", name);
    m.files.push_back(write_text(hidden / (CheckpointManifest::kCarriedPrefix + name), content));
  }
  storage::write_file(hidden / CheckpointManifest::kFileName, serialize(m));
  storage::sync(hidden);
  return publish(hidden);
}

void abandon_save(const std::filesystem::path& hidden) noexcept {
  try {
    if (storage::is_folder(hidden)) storage::remove_folder(hidden);
  } catch (const std::exception& e) {
    log::warning("{}", e.what());
  }
}

namespace {

// Begins a save, has `write` write the rank's file and finishes, or leaves nothing behind.
template <class WriteFile>
std::filesystem::path save_with(const std::filesystem::path& checkpoints_dir, const ParamTable& table,
                                const TrainState& state, const SaveOptions& options, const std::string& failure,
                                WriteFile&& write) {
  const std::filesystem::path hidden = begin_save(checkpoints_dir, state.step);
  try {
    return finish_save(hidden, table, {write(hidden)}, state, options);
  } catch (const UserError& e) {
    abandon_save(hidden);
    throw DataError(fmt::format("{}: {}", failure, e.what()));
  }
}

}  // namespace

std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints_dir, const ParamStore& store, Ops& ops,
                                      const TrainState& state, const SaveOptions& options) {
  const std::string failure = fmt::format("checkpoint of step {} not saved (earlier ones are intact)", state.step);
  return save_with(checkpoints_dir, store.table(), state, options, failure, [&](const std::filesystem::path& hidden) {
    return write_rank_file(hidden, store, ops, options.rank);
  });
}

std::filesystem::path save_weights(const std::filesystem::path& checkpoints_dir, const ParamTable& table,
                                   TensorReader& reader, const TrainState& state, const SaveOptions& options) {
  return save_with(checkpoints_dir, table, state, options, "weights not saved",
                   [&](const std::filesystem::path& hidden) {
                     return write_rank_file(hidden, table, *blocks_of(table, reader), options.rank);
                   });
}

}  // namespace fp
