// Saves and loads the complete state of training in fptrain's only checkpoint format (docs/checkpoint-format.md).
//
// A save is written into a hidden folder beside the finished checkpoints; one rename makes it visible once all its
// files are on disk. Loaded data is always verified: file by file before the load, or tensor by tensor after it.
// DataError reports damaged content only; a file that the file system does not let us read is an InfrastructureError
// or AccessError.
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/tensor_reader.h"
#include "io/lease.h"
#include "model/param_store.h"

namespace fp {

// The state that a resumed run needs beside the parameters and moments.
struct TrainState {
  int64_t step = 0;                                             // finished optimizer steps
  uint64_t consumed_samples = 0;                                // the complete state of the data loader
  double last_loss = std::numeric_limits<double>::quiet_NaN();  // of the last step; NaN: none yet
  nlohmann::json extra = nlohmann::json::object();              // written by the trainer: updates, skipped steps, ...
  std::string config_yaml;                                      // the resolved run spec
  std::string tokenizer_json;                  // Tokenizer::serialized(); empty: no tokenizer is stored
  std::map<std::string, std::string> carried;  // files that came with the imported model and are exported with it, by
                                               // name: a Hugging Face folder's config, tokenizer, generation settings
};

struct SaveOptions {
  std::string created_by = "fptrain";  // program and version
  Mesh mesh;                           // of this run
  int rank = 0;                        // of this process
  const Lease* lease = nullptr;        // the run's lease on its folder; null: no other process writes there

  // Call before making visible or removing any file of the run. Throws LeaseLost when another run owns the folder.
  void require_owner() const {
    if (lease != nullptr) lease->require();
  }
};

// ---- saving ---------------------------------------------------------------------------------------------------------

// Saves the whole model from this single process into checkpoints_dir/step-<step> and returns that path. A checkpoint
// of the same step is replaced. Throws DataError when it fails (disk full, no permission, ...); every earlier
// checkpoint then stays as it was.
std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints_dir, const ParamStore&, Ops&,
                                      const TrainState&, const SaveOptions&);

// Saves a checkpoint that holds weights only, read through the TensorReader a few MiB at a time. `table` must describe
// the whole model.
std::filesystem::path save_weights(const std::filesystem::path& checkpoints_dir, const ParamTable& table, TensorReader&,
                                   const TrainState&, const SaveOptions&);

// The steps of a save by many ranks: one rank calls begin_save; each rank writes its own file into the hidden folder
// that it returned (rank_file.h); when all have, one rank calls finish_save, which returns the checkpoint's path. Ranks
// exchange only the RankFile records of what they wrote, never tensors.
std::filesystem::path begin_save(const std::filesystem::path& checkpoints_dir, int64_t step);
std::filesystem::path finish_save(const std::filesystem::path& hidden, const ParamTable&, const std::vector<RankFile>&,
                                  const TrainState&, const SaveOptions&);
// Removes what a failed save left behind. Errors are only logged.
void abandon_save(const std::filesystem::path& hidden) noexcept;

// ---- loading --------------------------------------------------------------------------------------------------------

class Checkpoint {
 public:
  // Opens a checkpoint and verifies its manifest and, depending on Verify: `everything`: the sizes and hashes of all
  // files; `all_but_tensors`: the same except for the hashes of rank files, whose tensors a load compares with the
  // manifest's fingerprints; `sizes`: the sizes only; `manifest`: no other file, for when another rank has verified
  // more. Throws DataError listing all problems, or NewerFormatError.
  enum class Verify : uint8_t { everything, all_but_tensors, sizes, manifest };
  static Checkpoint open(const std::filesystem::path& folder, Verify = Verify::everything);

  // Allows HDF5 to parse index.h5 if this checkpoint has no index.bin, as older programs saved them. Call this only for
  // a run's own checkpoint; for any other, HDF5 is refused unless allow_hdf5_for_all() was called.
  void allow_hdf5() { allows_hdf5_ = true; }
  bool allows_hdf5() const;
  // Returns whether the checkpoint has no index.bin.
  bool needs_hdf5() const { return manifest_.file(CheckpointManifest::kTableName) == nullptr; }

  const std::filesystem::path& folder() const { return folder_; }
  const CheckpointManifest& manifest() const { return manifest_; }
  TrainState state() const;
  // Returns the part of state() that is in the manifest, without reading any file: all but config, tokenizer and
  // carried files.
  TrainState position() const;

  // Lists how the stored parameters differ from the table's, one line each: missing, unknown, other shape. Empty when
  // they match. Parameters for which `any_shape` is true may have another shape.
  using AnyShape = std::function<bool(const Param&)>;
  std::vector<std::string> mismatches(const ParamTable&, const AnyShape& any_shape = {}) const;
  // Throws DataError with the first mismatches and the number of others, if there are any.
  void require(const ParamTable&, const AnyShape& any_shape = {}) const;

  // Throws unless every parameter is stored with the states of the table's slots: DataError when only weights are
  // stored, ConfigError when another optimizer saved it.
  void require_states(const ParamTable&) const;

  // Whether the table has a slot of weights (StateSlot::is_weights), and every parameter is stored with its state. If
  // not, a load sets these weights to the rounded parameters.
  bool stores_sent_weights(const ParamTable&) const;

  // Whether the checkpoint has the errors (StateSlot::errors_of) of as many groups of ranks as the table. If not, a
  // load sets them to 0.
  bool stores_errors(const ParamTable&) const;

  // Loads into a store, for training or with weights only. Padding and gaps become 0; the compute weights are refreshed
  // (only this rank's shard, where master weights are sharded). Throws as above, and DataError when the parameters
  // mismatch or, where this rank holds the whole model, when the fingerprints of what was loaded differ from those of
  // what was saved. Returns the fingerprints of what this rank owns; summed over all ranks, pass them to
  // check_fingerprints().
  Fingerprints load(ParamStore&, Ops&) const;
  // Loads only the weights, into either kind of store; the optimizer's states become 0.
  Fingerprints load_weights(ParamStore&, Ops&) const;
  // Returns a reader of the tensors, which index.bin locates. It must not outlive the checkpoint. This and the loads
  // throw OlderFormatError (fragment_index.h) when there is no index.bin and HDF5 is not allowed.
  std::unique_ptr<TensorReader> tensors() const;

 private:
  std::filesystem::path folder_;
  CheckpointManifest manifest_;
  bool allows_hdf5_ = false;
};

// Allows HDF5 to parse index.h5 of every checkpoint without index.bin that this process reads, because the user passed
// --hdf5. Call this before reading any checkpoint.
void allow_hdf5_for_all();

// Compares fingerprints (summed over all ranks) with the manifest's. Throws DataError naming the tensors that differ.
void check_fingerprints(const Checkpoint&, const ParamTable&, const Fingerprints&);

}  // namespace fp
