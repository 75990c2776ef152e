// Saving and loading the whole state of training in the one format there is (docs/checkpoint-format.md).
//
// A save happens in a hidden folder beside the finished checkpoints and becomes visible by one rename, when everything
// in it is on disk. What is loaded has been verified, file by file before or tensor by tensor after. Damage (DataError)
// is a matter of content alone: what a file system does not let one read is an InfrastructureError or AccessError.
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/lease.h"
#include "checkpoint/manifest.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/tensor_reader.h"
#include "model/param_store.h"

namespace fp {

// What a resumed run needs beside the parameters and moments.
struct TrainState {
  int64_t step = 0;                                             // finished optimizer steps
  uint64_t consumed_samples = 0;                                // the data loader's only state
  double last_loss = std::numeric_limits<double>::quiet_NaN();  // of the last step; NaN: none yet
  nlohmann::json extra = nlohmann::json::object();              // the trainer's own: schedule, skipped steps, ...
  std::string config_yaml;                                      // the resolved run spec
  std::string tokenizer_json;                                   // Tokenizer::serialized(); empty: none is stored
  std::map<std::string, std::string> carried;  // files that came with the model and leave with it, by name: a Hugging
                                               // Face folder's config, tokenizer and generation settings
};

struct SaveOptions {
  std::string created_by = "fptrain";  // program and version
  Mesh mesh;                           // of this run
  int rank = 0;                        // of this process
  const Lease* lease = nullptr;        // of the run on its folder; null: nobody else writes there

  // Before anything of the run's is made visible or removed. LeaseLost when another run has the folder.
  void require_owner() const {
    if (lease != nullptr) lease->require();
  }
};

// ---- saving ---------------------------------------------------------------------------------------------------------

// Saves everything from this one process into checkpoints_dir/step-<step> and returns that path. A checkpoint of the
// same step is replaced. DataError (disk full, no permission, ...) leaves every earlier checkpoint as it was.
std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints_dir, const ParamStore&, Ops&,
                                      const TrainState&, const SaveOptions&);

// A checkpoint of weights alone, read from elsewhere a few MiB at a time. `table` holds the whole model.
std::filesystem::path save_weights(const std::filesystem::path& checkpoints_dir, const ParamTable& table, TensorReader&,
                                   const TrainState&, const SaveOptions&);

// The same in parts, for many ranks: one begins; each writes its own file into the hidden folder that begin_save
// returned (rank_file.h); when all have, one finishes. What passes between ranks is what they wrote where, never
// tensors.
std::filesystem::path begin_save(const std::filesystem::path& checkpoints_dir, int64_t step);
std::filesystem::path finish_save(const std::filesystem::path& hidden, const ParamTable&, const std::vector<RankFile>&,
                                  const TrainState&, const SaveOptions&);
// Removes what a failed save has left; problems with that are logged only.
void abandon_save(const std::filesystem::path& hidden) noexcept;

// ---- loading --------------------------------------------------------------------------------------------------------

class Checkpoint {
 public:
  // Verifies the manifest and the sizes and hashes of all files; of all but those with tensors, which a load compares
  // with the manifest's fingerprints; sizes alone; or the manifest alone, where another rank has done more. DataError
  // listing everything that is wrong; NewerFormatError.
  enum class Verify : uint8_t { everything, all_but_tensors, sizes, manifest };
  static Checkpoint open(const std::filesystem::path& folder, Verify = Verify::everything);

  const std::filesystem::path& folder() const { return folder_; }
  const CheckpointManifest& manifest() const { return manifest_; }
  TrainState state() const;
  // Of that what the manifest says, without the content of any file: all but config, tokenizer and carried files.
  TrainState position() const;

  // How the stored parameters differ from the table's, one line each: missing, unknown, other shape. Empty: not at all.
  std::vector<std::string> mismatches(const ParamTable&) const;
  // DataError listing them, if there are any.
  void require(const ParamTable&) const;

  // Fills a store of either content; padding and gaps become 0, the compute weights are refreshed (of this rank's
  // shard, where masters are sharded). DataError when the parameters mismatch or, where this rank holds the whole
  // model, when what was loaded has another fingerprint than what was saved. Returns the fingerprints of what this rank
  // owns, for check_fingerprints() of all ranks' sums.
  Fingerprints load(ParamStore&, Ops&) const;
  // Of a store of either content the weights only; moments become 0.
  Fingerprints load_weights(ParamStore&, Ops&) const;
  // Reads tensors through the index; must not outlive the checkpoint.
  std::unique_ptr<TensorReader> tensors() const;

 private:
  std::filesystem::path folder_;
  CheckpointManifest manifest_;
};

// Checkpoint::open, load and state in one.
TrainState load_checkpoint(const std::filesystem::path& folder, ParamStore&, Ops&);

// Compares fingerprints (of all ranks, summed) with the manifest's. DataError naming the tensors that differ.
void check_fingerprints(const Checkpoint&, const ParamTable&, const Fingerprints&);

}  // namespace fp
