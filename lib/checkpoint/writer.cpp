#include <algorithm>
#include <ctime>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/fragment_table.h"
#include "checkpoint/index.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/read_back.h"
#include "io/storage.h"

namespace fp {
namespace {

int index_of(const ParamTable& table, const std::string& slot) {
  return static_cast<int>(std::ranges::find(table.slots(), slot, &StateSlot::name) - table.slots().begin());
}

// Merges the records of all ranks into one list of parameters, in the model's order, with their states in that of the
// slots.
std::vector<IndexedParam> collect(const ParamTable& table, const std::vector<RankFile>& rank_files) {
  std::vector<IndexedParam> all(table.size());
  for (const RankFile& of_rank : rank_files)
    for (const WrittenPart& p : of_rank.parts) {
      IndexedParam& c = all.at(static_cast<size_t>(p.id));
      c.param.name = table[p.id].name;
      c.param.shape = table[p.id].shape;
      const StateSlot& slot = table.slots().at(static_cast<size_t>(p.slot));
      auto state = std::ranges::find(c.param.states, slot.name, &StoredState::name);
      if (state == c.param.states.end()) {
        state = std::ranges::find_if(c.param.states,
                                     [&](const StoredState& s) { return index_of(table, s.name) > p.slot; });
        c.fragments.insert(c.fragments.begin() + (state - c.param.states.begin()), std::vector<StoredFragment>());
        state = c.param.states.insert(state, {slot.name, 0, slot.dtype});
      }
      state->fingerprint += p.fingerprint;
      c.fragments[static_cast<size_t>(state - c.param.states.begin())].push_back(
          {of_rank.rank, p.number, p.box, p.offset});
    }
  for (ParamId id = 0; id < static_cast<ParamId>(all.size()); ++id)
    FP_CHECK(!all[static_cast<size_t>(id)].param.states.empty() &&
                 all[static_cast<size_t>(id)].param.states.front().name == kParamState,
             "no rank wrote {}", table[id].name);
  return all;
}

CheckpointFile write_text(const std::filesystem::path& path, const std::string& text) {
  storage::write_file(path, text);
  return read_back(path, text);
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
  const std::vector<IndexedParam> parameters = collect(table, rank_files);
  CheckpointManifest m;
  m.created_by = options.created_by;
  m.created_at = utc_now();
  m.step = state.step;
  m.consumed_samples = state.consumed_samples;
  m.last_loss = state.last_loss;
  m.extra = state.extra;
  m.mesh = options.mesh;
  for (const IndexedParam& c : parameters) m.parameters.push_back(c.param);
  for (const RankFile& f : rank_files) m.files.push_back(f.file);
  m.files.push_back(write_index(hidden / CheckpointManifest::kIndexName, parameters));
  m.files.push_back(write_text(hidden / CheckpointManifest::kTableName, serialize_fragments(parameters)));
  m.files.push_back(write_text(hidden / CheckpointManifest::kConfigName, state.config_yaml));
  if (!state.tokenizer_json.empty())
    m.files.push_back(write_text(hidden / CheckpointManifest::kTokenizerName, state.tokenizer_json));
  for (const auto& [name, content] : state.carried) {
    FP_CHECK(name.find('/') == std::string::npos, "'{}' is not the name of a file", name);
    m.files.push_back(write_text(hidden / (CheckpointManifest::kCarriedPrefix + name), content));
  }
  write_text(hidden / CheckpointManifest::kFileName, serialize(m));
  storage::sync(hidden);
  options.require_owner();
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

// Begins a save, lets `write` write the rank's file, and finishes the save or removes everything.
template <class WriteFile>
std::filesystem::path save_with(const std::filesystem::path& checkpoints_dir, const ParamTable& table,
                                const TrainState& state, const SaveOptions& options, const std::string& failure,
                                WriteFile&& write) {
  options.require_owner();
  const std::filesystem::path hidden = begin_save(checkpoints_dir, state.step);
  try {
    return finish_save(hidden, table, {write(hidden)}, state, options);
  } catch (const LeaseLost&) {
    throw;
  } catch (const UserError& e) {
    abandon_save(hidden);
    throw DataError(fmt::format("{}: {}", failure, e.what()),
                    e.code() == ExitCode::infrastructure ? e.code() : ExitCode::bad_data);
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
