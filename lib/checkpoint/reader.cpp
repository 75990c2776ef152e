#include <algorithm>
#include <set>

#include "base/filesystem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/hdf5.h"

namespace fp {
namespace {

std::string lines(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& l : list) text += "\n  " + l;
  return text;
}

// What is wrong with the size of a file; empty: nothing.
std::string size_problem(const std::filesystem::path& path, const CheckpointFile& f) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return f.name + ": is missing";
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) return fmt::format("{}: cannot be examined: {}", f.name, error.message());
  if (bytes != f.bytes) return fmt::format("{}: has {} bytes, should have {}", f.name, bytes, f.bytes);
  return {};
}

CheckpointManifest verified_manifest(const std::filesystem::path& folder, bool hashes) {
  CheckpointManifest manifest = read_checkpoint_manifest(folder);
  std::vector<std::string> problems;
  for (const CheckpointFile& f : manifest.files) {
    std::string problem = size_problem(folder / f.name, f);
    if (problem.empty() && hashes && hash_file(folder / f.name) != f.xxh3)
      problem = f.name + ": content differs from what was saved (its hash is wrong)";
    if (!problem.empty()) problems.push_back(problem);
  }
  if (!problems.empty()) throw DataError(fmt::format("{}: damaged:{}", folder.string(), lines(problems)));
  return manifest;
}

// Copies host values into rows of a parameter, rounding to nearest even where the store holds bf16.
void copy_rows(Ops& ops, const Tensor& rows, const std::vector<float>& host, std::vector<bf16>& rounded) {
  if (rows.dtype == DType::f32) return ops.copy_in(rows, host.data());
  rounded.resize(host.size());
  std::transform(host.begin(), host.end(), rounded.begin(), [](float x) { return bf16(x); });
  ops.copy_in(rows, rounded.data());
}

struct Staging {
  std::vector<float> host;
  std::vector<bf16> rounded;
};

// Reads this rank's part of one logical tensor into `flat`; adds the fingerprint of the elements it owns, as read, to
// `print` unless that is null.
void load_tensor(const h5::File& index, const ParamStore& store, Ops& ops, ParamId id, StateKind kind,
                 const Tensor& flat, Staging& staging, uint64_t* print) {
  const ParamTable& table = store.table();
  const Param& p = table[id];
  const std::vector<Slab> held = table.slabs_of(id), owned = owned_slabs(table, id);
  const h5::Dataset dataset = index.dataset(p.name + "/" + name_of(kind));
  if (!(dataset.shape() == p.shape))
    throw DataError(fmt::format("{} has shape {} in the index", p.name, dataset.shape().str()));
  int64_t elements = 0;
  for (const Slab& s : held) elements += s.count.elements();
  const bool padded = elements < p.local_elements();
  for_each_block(p, [&](const RowBlock& block) {
    const Tensor rows = store.part(flat, id).slice(block.first, block.count);
    staging.host.resize(static_cast<size_t>(rows.elements()));
    if (padded) std::fill(staging.host.begin(), staging.host.end(), 0.0f);
    for (const Slab& s : held)
      if (const auto o = overlap(p, s, block)) dataset.read(o->logical, staging.host.data(), o->window);
    for (const Slab& s : owned)
      if (const auto o = overlap(p, s, block); o && print != nullptr)
        *print += fingerprint(p.shape, o->logical, staging.host.data(), o->window);
    copy_rows(ops, rows, staging.host, staging.rounded);
    ops.synchronize();  // the host memory is used again
  });
}

bool holds_everything(const ParamTable& table) { return table.tp() == 1; }

}  // namespace

CheckpointManifest check_sizes(const std::filesystem::path& folder) { return verified_manifest(folder, false); }

Checkpoint Checkpoint::open(const std::filesystem::path& folder) {
  Checkpoint c;
  c.folder_ = folder;
  c.manifest_ = verified_manifest(folder, true);
  return c;
}

TrainState Checkpoint::state() const {
  TrainState s;
  s.step = manifest_.step;
  s.consumed_samples = manifest_.consumed_samples;
  s.last_loss = manifest_.last_loss;
  s.extra = manifest_.extra;
  s.config_yaml = read_file(folder_ / CheckpointManifest::kConfigName);
  if (manifest_.file(CheckpointManifest::kTokenizerName) != nullptr)
    s.tokenizer_json = read_file(folder_ / CheckpointManifest::kTokenizerName);
  return s;
}

std::vector<std::string> Checkpoint::mismatches(const ParamTable& table) const {
  std::vector<std::string> problems;
  for (const Param& p : table) {
    const CheckpointParam* stored = manifest_.parameter(p.name);
    if (stored == nullptr)
      problems.push_back(fmt::format("{} {} is not in the checkpoint", p.name, p.shape.str()));
    else if (!(stored->shape == p.shape))
      problems.push_back(
          fmt::format("{} is {} in the model but {} in the checkpoint", p.name, p.shape.str(), stored->shape.str()));
  }
  for (const CheckpointParam& p : manifest_.parameters)
    if (table.find(p.name) < 0)
      problems.push_back(fmt::format("{} {} is in the checkpoint but not in the model", p.name, p.shape.str()));
  return problems;
}

void Checkpoint::require(const ParamTable& table) const {
  const std::vector<std::string> problems = mismatches(table);
  if (!problems.empty())
    throw DataError(
        fmt::format("{}: holds another model than the run spec describes:{}", folder_.string(), lines(problems)));
}

void Checkpoint::load(ParamStore& store, Ops& ops) const {
  const ParamTable& table = store.table();
  require(table);
  const bool training = static_cast<bool>(store.moment1());
  if (training && !manifest_.has_moments())
    throw DataError(
        fmt::format("{}: holds weights only, no optimizer moments: training cannot go on from it", folder_.string()));
  const Tensor& target = store.master() ? store.master() : store.weights();
  for (const Tensor& flat : {target, store.moment1(), store.moment2(), store.grads()})
    if (flat) ops.zero(flat);  // padding and the gaps between parameters
  const h5::File index = h5::File::open(folder_ / CheckpointManifest::kIndexName);
  // Of training state the fingerprint is taken from where it lies at the end; of weights, from what was read, since
  // those in the store may be rounded.
  Fingerprints prints(table.size());
  Staging staging;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id)
    for (const StateKind kind : kStateKinds) {
      const bool moment = kind != StateKind::param;
      if (moment && !training) continue;
      uint64_t* print = training ? nullptr : &prints[static_cast<size_t>(id)][kind];
      load_tensor(index, store, ops, id, kind, moment ? flat_of(store, kind) : target, staging, print);
    }
  store.refresh_weights(ops);
  if (training) prints = fingerprints(store, ops);
  if (holds_everything(table)) check_fingerprints(*this, table, prints);
}

void check_fingerprints(const Checkpoint& checkpoint, const ParamTable& table, const Fingerprints& prints) {
  std::vector<std::string> problems;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    const CheckpointParam* stored = checkpoint.manifest().parameter(table[id].name);
    for (const auto& [kind, print] : prints[static_cast<size_t>(id)])
      if (stored == nullptr || !stored->fingerprints.contains(kind) || stored->fingerprints.at(kind) != print)
        problems.push_back(fmt::format("{} of {}", name_of(kind), table[id].name));
  }
  if (!problems.empty())
    throw DataError(
        fmt::format("{}: these tensors are not what was saved:{}", checkpoint.folder().string(), lines(problems)));
}

TrainState load_checkpoint(const std::filesystem::path& folder, ParamStore& store, Ops& ops) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  checkpoint.load(store, ops);
  return checkpoint.state();
}

}  // namespace fp
