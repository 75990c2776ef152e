// Chooses the checkpoint that a run continues from, and checks that it may.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "config/run_spec.h"
#include "data/sampling/sampler.h"

namespace fp {

// Returns the checkpoint that `resume` selects, or nullopt for a fresh run.
// "auto": the newest good checkpoint of this model; damaged and foreign ones are skipped with a warning. Returns
//   nullopt in an empty folder. Throws DataError when there are checkpoints but none can be used, so that no run starts
//   over unasked; ConfigError when the newest one has a later format version; InfrastructureError when it cannot be
//   read.
// "none": nullopt; ConfigError when the run already has checkpoints, which a fresh run would overwrite.
// A path: that checkpoint; DataError when it is not a good one. ConfigError when the run already has newer ones, or the
//   path is elsewhere and the run has any, which it would not continue and would delete in time.
// The tensors are not read. When a load finds a checkpoint to be damaged, call this again with it in `skip`. Adds the
// checkpoints that were found to be damaged to `damaged`.
std::optional<Checkpoint> checkpoint_to_resume(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                               const ParamTable&, const std::set<std::filesystem::path>& skip,
                                               DamagedCheckpoints& damaged);

// Throws ConfigError with the keys of `model` that differ if the checkpoint that `resume` names, or with "auto" every
// checkpoint of the folder, holds another model. Does nothing where another error is to be reported, or where a
// checkpoint does not say by its run spec why it differs: checkpoint_to_resume() names the tensors.
void require_model_of_checkpoints(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                  const ParamTable&, const ModelSection& model);

// Returns everything that determines the sequence of samples: contents of the data, dataset weights, seed, sequence
// length, masking, tokenizer.
nlohmann::json data_identity(const RunSpec&, const Sampler&);

// Lists how the data of a run differs from that of the checkpoint it would resume, one line per key; empty when it does
// not.
std::string data_differences(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace fp
