// Operations that all ranks of a run perform together outside its steps. Every rank must call each function that takes
// a Group; an error on one rank is thrown on all, with the same message.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "comm/comm.h"
#include "dryrun/dry_run.h"
#include "interop/weight_source.h"
#include "train/rank_result.h"

namespace fp {

// Runs `work` on every rank and returns all results, in rank order, on all ranks. A UserError of any rank is thrown on
// all, with its rank and host. On ranks other than 0 an AccessError becomes an InfrastructureError: whether a file
// exists and is valid is for rank 0 to decide.
std::vector<std::string> on_all_ranks(Group& world, const std::function<std::string()>& work);

// Returns the result of rank `whose` on all ranks, or throws its error, which the other ranks mark as another rank's.
RankResult result_of_rank(Group& world, int whose, const RankResult& mine);

// Throws on all ranks the error of the lowest rank that has one. Infrastructure errors come first: when a rank
// could not read a file, nothing is known about its content. Returns when no rank has an error.
void throw_on_all_ranks(Group& world, const RankResult& mine);

// Runs `work` on rank 0 and returns its result on all ranks; a UserError there is thrown on all.
std::string on_rank_0(Group& world, const std::function<std::string()>& work);

// Returns the result of checkpoint_to_resume(), called on rank 0, on all ranks; only rank 0 adds to `damaged`. A
// checkpoint without index.bin in the run's own folder is read by HDF5, with a warning: whoever can write there gains
// nothing from a manipulated file.
std::optional<Checkpoint> choose_checkpoint(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                            const ParamTable& table, Group& world,
                                            const std::set<std::filesystem::path>& skip, DamagedCheckpoints& damaged);

// Loads the checkpoint into the stores of all ranks. Throws DataError when it cannot be read, or when the fingerprints
// over all ranks differ from those that were saved. Compute weights of other shards are not set: gathering them is left
// to the caller.
void load_on_all_ranks(const Checkpoint&, ParamStore&, Ops&, Group& world);

// Why a checkpoint cannot be loaded although all its files could be read.
struct LoadDamage {
  std::string text;
  bool files_match = false;  // with their hashes: it was saved damaged, which only a load detects
};
// Like load_on_all_ranks(const Checkpoint&, ...), but loads a second time when the first load fails while all files
// have their hashes: a temporary fault of a disk or node must not cost a checkpoint. Returns nullopt when the stores
// are filled. Files that cannot be read are never damage: their error is thrown.
std::optional<LoadDamage> load_or_find_damage(const Checkpoint&, ParamStore&, Ops&, Group& world);

// Returns the state that a resumed run continues from: on rank 0 Checkpoint::state(), on the others
// Checkpoint::position().
TrainState state_on_all_ranks(const Checkpoint&, Group& world);

// Opens the weight source that rank 0 finds at `path` on all ranks: in a run that still saves, each rank might find a
// different latest checkpoint. Errors begin with `key`, the key of the run spec that names the path.
WeightSource open_on_all_ranks(const std::string& key, const std::filesystem::path&, Group& world);
// Loads the weights of a source into the stores of all ranks. Throws DataError as above.
void load_on_all_ranks(const WeightSource&, ParamStore&, Ops&, Group& world);

// Predicted and measured memory of a rank, in bytes: the arena's high-water mark, and the resident memory.
struct MemoryPeaks {
  int64_t predicted_arena = 0, arena_peak = 0;
  int64_t predicted_resident = 0, resident_peak = 0;  // on a GPU: the used device memory
  int64_t predicted_host_arena = 0, host_arena_peak = 0;
};
// Returns the values of all ranks as JSON on rank 0, and an empty text on the others.
std::string gather_memory_report(const MemoryPeaks&, Group& world);

// Host memory beside their devices that the ranks of a host need, in bytes.
struct HostNeed {
  size_t staging = 0, offloaded = 0;  // for saves, and for what memory.offload keeps there
  int ranks = 0;
};
// Throws ConfigError that says what would fit, when the host does not have this much memory (0 bytes: not known).
void require_fit_on_host(const HostNeed&, int64_t available, const std::string& host);

// Throws ConfigError when the ranks that share a device need more memory than it has, or those of a host, beside their
// devices, more than its memory, or either more than the budgets of the run spec. `advice` is called on rank 0 and
// returns text on what would fit, for the message.
void require_fit_on_all_ranks(const Prediction&, const MemorySection& budget, const Ops&, Group& world,
                              const std::function<std::string()>& advice = {});

// Returns a sentence that names a rank whose implementation of attention differs from that of the first rank of its
// pipeline stage, and how many such ranks there are; empty if there are none.
std::string differing_attention(const Prediction&, int pipeline_rank, Group& world);

}  // namespace fp
