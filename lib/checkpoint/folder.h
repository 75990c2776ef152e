// The folder of a run's checkpoints: what is in it, which to resume from, which to delete.
//
// Names: step-00000100 is a checkpoint; step-00000100.aside-1 is none any more, but nothing deletes it. Hidden names
// are this module's own and never hold the only copy of anything but .replaced-: .tmp-step-N is being written,
// .trash-step-N is being deleted, .replaced-step-N makes way for a new checkpoint of the same step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace fp {

inline const std::string kHiddenPrefix = ".tmp-";

std::string checkpoint_name(int64_t step);                        // "step-00000100"
std::optional<int64_t> checkpoint_step(const std::string& name);  // nothing when it is no such name

// The file of the lease that a run holds on its directory (base/lease.h).
std::filesystem::path lease_file(const std::filesystem::path& run_directory);

// The visible checkpoints of a folder, newest first, good or bad.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& checkpoints_dir);

// Makes a finished hidden folder visible; a checkpoint of the same step of the same model is replaced, anything else in
// the way is renamed aside with a warning, never deleted.
std::filesystem::path publish(const std::filesystem::path& hidden);

// Renames a checkpoint that proved damaged, so that no run takes or replaces it; what it is called now.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

// What a killed run left behind: finishes or undoes it. To be called at the start of a run, before anything is loaded,
// by who holds the run's lease (base/lease.h).
void clean_leftovers(const std::filesystem::path& checkpoints_dir);

// The newest checkpoint that verifies and, given a table, holds that table's parameters. Others on the way are named in
// a warning and skipped; those in `passed` are skipped in silence. What cannot be read (InfrastructureError,
// AccessError) or is of a later format (NewerFormatError) is not skipped: it may be as good as any.
std::optional<Checkpoint> find_latest(const std::filesystem::path& checkpoints_dir, const ParamTable* table = nullptr,
                                      Checkpoint::Verify = Checkpoint::Verify::everything,
                                      const std::set<std::filesystem::path>& passed = {});

// For commands: a checkpoint by its own path, or the latest of a checkpoints folder or run directory.
Checkpoint open_checkpoint_at(const std::filesystem::path& path, Checkpoint::Verify = Checkpoint::Verify::everything);
// The folder with checkpoints behind such a path: itself or its checkpoints/.
std::filesystem::path checkpoints_folder_at(const std::filesystem::path& path);

// A quick look, without reading the tensors: the manifest and the sizes of the files. DataError when they are bad.
CheckpointManifest check_sizes(const std::filesystem::path& folder);

struct Retention {
  int64_t keep_last = 0;   // newest checkpoints kept; 0: all
  int64_t keep_every = 0;  // checkpoints whose step is a multiple are kept too; 0: none
};
// Deletes what need not be kept of the checkpoints up to step `newest`, the run's own last one. The newest verified one
// always stays: of a step in `verified`, whose save was compared with what was in memory (read_back.h), or whose files
// all have their hashes, which is looked up here. Later ones than `newest`, which the run has passed over, damaged ones
// and links to folders elsewhere do not count and stay too. What cannot be deleted is named in a warning.
void apply_retention(const std::filesystem::path& checkpoints_dir, const Retention&, int64_t newest,
                     const std::set<int64_t>& verified = {});

}  // namespace fp
