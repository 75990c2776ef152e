#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>

#include "base/human_text.h"
#include "base/parallel.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/fill.h"
#include "checkpoint/folder.h"
#include "checkpoint/fragment_reader.h"
#include "checkpoint/plain_file.h"
#include "checkpoint/tensor_reader.h"
#include "io/retry.h"
#include "model/host_view.h"

namespace fp {
namespace {

// Returns what is wrong with the size of a file; empty when nothing is.
std::string size_problem(const std::filesystem::path& path, const CheckpointFile& f) {
  std::optional<uint64_t> bytes;
  try {
    bytes = size_of_plain_file(path);
  } catch (const AccessError&) {
    throw;
  } catch (const DataError& e) {
    return e.what();
  }
  if (!bytes) return f.name + ": is missing";
  return *bytes == f.bytes ? "" : fmt::format("{}: has {} bytes, should have {}", f.name, *bytes, f.bytes);
}

// Returns what is wrong with a file; empty when nothing is. Throws when it cannot be read, which is not damage.
std::string problem_of(const std::filesystem::path& folder, const CheckpointFile& f, bool hash) {
  std::string problem = size_problem(folder / f.name, f);
  if (problem.empty() && hash && hash_plain_file(folder / f.name) != f.xxh3)
    problem = f.name + ": content differs from what was saved (its hash is wrong)";
  return problem;
}

CheckpointManifest verified_manifest(const std::filesystem::path& folder, Checkpoint::Verify verify) {
  using Verify = Checkpoint::Verify;
  const auto hashed = [&](const CheckpointFile& f) {
    return verify == Verify::everything || (verify == Verify::all_but_tensors && !f.holds_tensors());
  };
  CheckpointManifest manifest = read_checkpoint_manifest(folder);
  if (verify == Verify::manifest) return manifest;
  std::vector<std::string> problems(manifest.files.size());
  std::vector<std::exception_ptr> unread(manifest.files.size());
  const auto check = [&](size_t i) {
    try {
      problems[i] = problem_of(folder, manifest.files[i], hashed(manifest.files[i]));
    } catch (...) {
      unread[i] = std::current_exception();
    }
  };
  constexpr uint64_t kWorthThreads = 16 << 20;
  if (verify == Verify::everything && manifest.bytes() > kWorthThreads)
    parallel_each(static_cast<int64_t>(problems.size()), [&](int64_t i, int) { check(static_cast<size_t>(i)); });
  else
    for (size_t i = 0; i < problems.size(); ++i) check(i);
  std::erase(problems, std::string());
  if (!problems.empty()) throw DataError(fmt::format("{}: damaged:{}", folder.string(), indented_lines(problems)));
  for (const std::exception_ptr& error : unread)
    if (error != nullptr) std::rethrow_exception(error);
  return manifest;
}

constexpr uint64_t kMostText = uint64_t{1} << 30;  // bytes of a file that is read whole

}  // namespace

CheckpointManifest check_sizes(const std::filesystem::path& folder) {
  return verified_manifest(folder, Checkpoint::Verify::sizes);
}

Checkpoint Checkpoint::open(const std::filesystem::path& folder, Verify verify) {
  Checkpoint c;
  c.folder_ = folder;
  c.manifest_ = verified_manifest(folder, verify);
  return c;
}

TrainState Checkpoint::position() const {
  TrainState s;
  s.step = manifest_.step;
  s.consumed_samples = manifest_.consumed_samples;
  s.last_loss = manifest_.last_loss;
  s.extra = manifest_.extra;
  return s;
}

TrainState Checkpoint::state() const {
  TrainState s = position();
  s.config_yaml = read_plain_file(folder_ / CheckpointManifest::kConfigName, kMostText);
  if (manifest_.file(CheckpointManifest::kTokenizerName) != nullptr)
    s.tokenizer_json = read_plain_file(folder_ / CheckpointManifest::kTokenizerName, kMostText);
  for (const CheckpointFile& f : manifest_.files) {
    if (!f.name.starts_with(CheckpointManifest::kCarriedPrefix)) continue;
    const std::string name = f.name.substr(std::string_view(CheckpointManifest::kCarriedPrefix).size());
    if (name.empty() || name == "." || name == "..")
      throw DataError(
          fmt::format("{}: '{}' is not the name of a file that came with a model", folder_.string(), f.name));
    s.carried[name] = read_plain_file(folder_ / f.name, kMostText);
  }
  return s;
}

std::vector<std::string> Checkpoint::mismatches(const ParamTable& table, const AnyShape& any_shape) const {
  std::vector<std::string> problems;
  for (const Param& p : table) {
    const CheckpointParam* stored = manifest_.parameter(p.name);
    if (stored == nullptr)
      problems.push_back(fmt::format("{} {} is not in the checkpoint", p.name, p.shape.str()));
    else if (!(stored->shape == p.shape) && !(any_shape && any_shape(p)))
      problems.push_back(
          fmt::format("{} is {} in the model but {} in the checkpoint", p.name, p.shape.str(), stored->shape.str()));
  }
  for (const CheckpointParam& p : manifest_.parameters)
    if (table.find(p.name) < 0)
      problems.push_back(fmt::format("{} {} is in the checkpoint but not in the model", p.name, p.shape.str()));
  return problems;
}

void Checkpoint::require(const ParamTable& table, const AnyShape& any_shape) const {
  const std::vector<std::string> problems = mismatches(table, any_shape);
  if (!problems.empty())
    throw DataError(fmt::format("{}: holds another model than the run spec describes:{}", folder_.string(),
                                indented_lines(problems)));
}

void Checkpoint::require_states(const ParamTable& table) const {
  if (std::ranges::all_of(manifest_.parameters, [](const CheckpointParam& p) { return p.states.size() == 1; }) &&
      table.slot_count() > 1)
    throw DataError(
        fmt::format("{}: holds weights only, no optimizer states: training cannot resume from it", folder_.string()));
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    std::vector<std::string> stored, wanted;
    for (const StoredState& s : manifest_.parameter(table[id].name)->states)
      if (s.name != kSentState && !s.name.starts_with(kErrorState)) stored.push_back(s.name);
    for (const int slot : table.slots_of(id))
      if (slot < table.updated_slots()) wanted.push_back(table.slot_name(slot));
    if (std::ranges::is_permutation(stored, wanted)) continue;
    throw ConfigError(fmt::format(
        "{}: holds the states {} of {}, but the optimizer of the run spec (optimizer.kind) keeps {}: resume "
        "with the optimizer that saved it, or start another run from its weights (init_from)",
        folder_.string(), fmt::join(stored, ", "), table[id].name, fmt::join(wanted, ", ")));
  }
}

bool Checkpoint::stores_sent_weights(const ParamTable& table) const {
  return table.weights_slot() >= 0 && std::ranges::all_of(manifest_.parameters, [](const CheckpointParam& p) {
           return p.find(kSentState) != nullptr;
         });
}

bool Checkpoint::stores_errors(const ParamTable& table) const {
  const auto wanted = std::ranges::count_if(table.slots(), [](const StateSlot& s) { return s.errors_of >= 0; });
  return wanted > 0 && std::ranges::all_of(manifest_.parameters, [&](const CheckpointParam& p) {
           return wanted ==
                  std::ranges::count_if(p.states, [](const StoredState& s) { return s.name.starts_with(kErrorState); });
         });
}

namespace {
std::atomic<bool> hdf5_for_all = false;
}  // namespace

void allow_hdf5_for_all() { hdf5_for_all = true; }

bool Checkpoint::allows_hdf5() const { return allows_hdf5_ || hdf5_for_all; }

std::unique_ptr<TensorReader> Checkpoint::tensors() const { return std::make_unique<FragmentReader>(*this); }

Fingerprints Checkpoint::load(ParamStore& store, Ops& ops) const {
  if (!store.options().training) return load_weights(store, ops);
  const ParamTable& table = store.table();
  require(table);
  require_states(table);
  FragmentReader reader(*this);
  std::vector<int> slots(static_cast<size_t>(table.updated_slots()));
  std::iota(slots.begin(), slots.end(), 0);
  const bool sent = stores_sent_weights(table);
  if (sent) slots.push_back(table.weights_slot());
  const bool errors = stores_errors(table);
  if (errors)
    slots.push_back(table.error_slot());
  else
    store.clear_errors(ops);
  Fingerprints prints = fill_store(store, ops, slots, reader);
  zero_tensor(ops, store.grads());
  if (sent)
    ops.weights_changed();
  else
    store.refresh_weights(ops);
  if (ops.device_memory()) prints = fingerprints(store, ops);  // of the copy on the device, not of what was read
  for (auto& of_param : prints)
    std::erase_if(of_param, [&](const auto& p) {
      return (!sent && p.first == kSentState) || (!errors && p.first.starts_with(kErrorState));
    });
  if (table.holds_everything()) check_fingerprints(*this, table, prints);
  return prints;
}

Fingerprints Checkpoint::load_weights(ParamStore& store, Ops& ops) const {
  require(store.table());
  FragmentReader reader(*this);
  Fingerprints prints = load_weights_from(reader, store, ops);
  if (store.table().holds_everything()) check_fingerprints(*this, store.table(), prints);
  return prints;
}

Fingerprints load_weights_from(TensorReader& reader, ParamStore& store, Ops& ops) {
  constexpr std::array kWeights = {kParamSlot};
  Fingerprints prints = fill_store(store, ops, kWeights, reader);
  if (store.grads()) zero_tensor(ops, store.grads());
  for (int slot = kParamSlot + 1; slot < store.table().updated_slots(); ++slot)
    if (store.has(slot)) zero_tensor(ops, store.slot(slot));
  store.clear_errors(ops);
  store.refresh_weights(ops);
  return prints;
}

void check_fingerprints(const Checkpoint& checkpoint, const ParamTable& table, const Fingerprints& prints) {
  std::vector<std::string> problems;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    const CheckpointParam* stored = checkpoint.manifest().parameter(table[id].name);
    for (const auto& [state, print] : prints[static_cast<size_t>(id)]) {
      const StoredState* saved = stored == nullptr ? nullptr : stored->find(state);
      if (saved == nullptr || saved->fingerprint != print)
        problems.push_back(fmt::format("{} of {}", state, table[id].name));
    }
  }
  if (!problems.empty())
    throw DataError(fmt::format("{}: these tensors differ from the saved ones:{}", checkpoint.folder().string(),
                                indented_lines(problems)));
}

}  // namespace fp
