// Manages the folder of a run's checkpoints: lists them, finds the one to resume from and deletes old ones.
//
// Names: step-00000100 is a checkpoint; step-00000100.aside-1 was set aside: it no longer counts as a checkpoint, and
// nothing deletes it. Hidden names belong to this module: .tmp-step-N is being written, .trash-step-N is being deleted,
// .replaced-step-N makes way for a new checkpoint of the same step. Only .replaced- may be the only copy of its data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace fp {

inline const std::string kHiddenPrefix = ".tmp-";

std::string checkpoint_name(int64_t step);                        // "step-00000100"
std::optional<int64_t> checkpoint_step(const std::string& name);  // nullopt for any other name

// Throws DataError if a checkpoint's folder has not the name of the checkpoint's step.
void require_step_of_name(const Checkpoint&);

// Returns the path of the file behind the lease that a run holds on its directory (io/lease.h).
std::filesystem::path lease_file(const std::filesystem::path& run_directory);

// Lists the visible checkpoints of a folder, newest first, without verifying them.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& checkpoints_dir);

// Whether a checkpoint's folder is in this folder of checkpoints.
bool lies_in(const std::filesystem::path& checkpoint, const std::filesystem::path& checkpoints_dir);

// Makes a finished hidden folder visible and returns its new path. A checkpoint of the same step and model is replaced;
// anything else of that name is set aside with a warning, never deleted.
std::filesystem::path publish(const std::filesystem::path& hidden);

// Renames a damaged checkpoint so that no run resumes from it or replaces it. Returns its new path.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

// Completes or rolls back operations that a killed run left unfinished. Call this at the start of a run, before loading
// anything, and only while holding the run's lease (io/lease.h).
void clean_leftovers(const std::filesystem::path& checkpoints_dir);

// Checkpoints that do not verify, with the reason.
using DamagedCheckpoints = std::map<std::filesystem::path, std::string>;

// Returns the newest checkpoint that verifies and, given a table, holds that table's parameters. Newer ones that do not
// are skipped with a warning each, and those that do not verify, even when they are read again, are added to `damaged`;
// those in `skip` are skipped silently. A checkpoint that cannot be read
// (InfrastructureError, AccessError) or has a later format (NewerFormatError) is not skipped, since it may be good: the
// error is thrown.
std::optional<Checkpoint> find_latest(const std::filesystem::path& checkpoints_dir, const ParamTable* table = nullptr,
                                      Checkpoint::Verify = Checkpoint::Verify::everything,
                                      const std::set<std::filesystem::path>& skip = {},
                                      DamagedCheckpoints* damaged = nullptr);

// The choice where the newest of several checkpoints is damaged: use an older one with a warning; or refuse, with a
// message that names an older one, and the flag --allow-older where the command has it.
enum class Older : uint8_t { allowed, refused, refused_without_flag };

// For commands: opens the checkpoint at `path`, or the newest one when `path` is a checkpoints folder or a run
// directory. Throws DataError that names checkpoints nearby when there is none.
Checkpoint open_checkpoint_at(const std::filesystem::path& path, Checkpoint::Verify = Checkpoint::Verify::everything,
                              Older = Older::refused);
// Returns a line with what to do where the newest checkpoint of a run, chosen as such, turns out to be damaged. Empty:
// there is no older one.
std::string advice_on_older(const std::filesystem::path& newest, Older);
// Returns "; there are A, B": checkpoints or runs in the folder, or in the nearest one above that exists, newest first.
// Empty: there are none.
std::string checkpoints_nearby(const std::filesystem::path&);
// Returns the folder of checkpoints for such a path: `path`/checkpoints where that exists, else `path` itself.
std::filesystem::path checkpoints_folder_at(const std::filesystem::path& path);

// Checks the manifest and the sizes of the files without reading the tensors. Throws DataError when they are wrong.
CheckpointManifest check_sizes(const std::filesystem::path& folder);

struct Retention {
  int64_t keep_last = 0;   // newest checkpoints kept; 0: all
  int64_t keep_every = 0;  // checkpoints whose step is a multiple are kept too; 0: none
};
// Deletes the checkpoints up to step `newest`, the run's own last one, that the retention does not keep. The newest
// verified one always stays: its step is in `verified`, because its save was compared with memory (read_back.h), or the
// hashes of all its files match, which this function checks. Damaged checkpoints, those of another model than the
// newest one's, links to folders elsewhere, and checkpoints later than `newest`, which the run did not resume from, are
// not counted and not deleted. A checkpoint that cannot be deleted is reported in a warning.
void apply_retention(const std::filesystem::path& checkpoints_dir, const Retention&, int64_t newest,
                     const std::set<int64_t>& verified = {});

}  // namespace fp
