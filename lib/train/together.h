// What the ranks of a run do together outside its steps. Every rank calls each of these; what fails on one rank fails
// on all, with the same message.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "train/dry_run.h"
#include "train/weight_source.h"

namespace fp {

// What a rank came to, as text: "0 result", or "CODE message" of the UserError it met; "76d message" of a DataError of
// that code.
std::string outcome_of(const std::function<std::string()>& work);
// The result, or the error as an exception of its kind.
std::string result_of(const std::string& outcome);

// What `work` comes to on each rank, in rank order, on all. A UserError of any, with its rank and host, is thrown on
// all. What a rank may not read is an InfrastructureError: whether a file is there, and right, is rank 0's to say.
std::vector<std::string> on_all_ranks(Group& world, const std::function<std::string()>& work);

// Throws on all ranks the error of the lowest one that met any, of the infrastructure before any other: what a rank
// could not read says nothing about the rest.
void fail_together(Group& world, const std::string& outcome);

// Runs `work` on rank 0 and gives its result to all; a UserError there is thrown on all.
std::string on_rank_0(Group& world, const std::function<std::string()>& work);

// As checkpoint_to_resume(), which rank 0 does for all.
std::optional<Checkpoint> choose_checkpoint(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                            const ParamTable& table, Group& world,
                                            const std::set<std::filesystem::path>& passed = {});

// Fills the stores of all ranks; DataError when it cannot be read or what they hold, taken together, is not what was
// saved. Compute weights of other shards are left to who gathers them.
void load_together(const Checkpoint&, ParamStore&, Ops&, Group& world);

// Why a checkpoint cannot be loaded although all of it could be read.
struct LoadDamage {
  std::string text;
  bool files_match = false;  // with their hashes: it was saved so, and nothing but a load finds it out
};
// The same, once more where it fails and all files are still what was saved: a disk or node may fail for a moment,
// which must cost nobody a checkpoint. Nothing: the stores are filled. What cannot be read is thrown, and never damage.
std::optional<LoadDamage> load_or_find_damage(const Checkpoint&, ParamStore&, Ops&, Group& world);

// What a resumed run goes on from: on rank 0 all of Checkpoint::state(), on the others what the manifest says.
TrainState state_together(const Checkpoint&, Group& world);

// A source that rank 0 finds for all: of a run that still saves, each would find another.
WeightSource open_together(const std::filesystem::path&, Group& world);
// Its weights; DataError as above.
void load_together(const WeightSource&, ParamStore&, Ops&, Group& world);

// What a rank took, in bytes, against what was predicted: of the arena its high-water mark, and of the machine.
struct MemoryTaken {
  int64_t predicted_arena = 0, arena_peak = 0;
  int64_t predicted_resident = 0, resident_peak = 0;  // of a GPU: what is used of its memory
};
// Those of all ranks as JSON, on rank 0; empty on the others.
std::string memory_text_together(const MemoryTaken&, Group& world);

// ConfigError when the ranks that share a device need more memory than it has. `advice` says on rank 0 what would fit.
void require_fit_together(const Prediction&, const Ops&, Group& world, const std::function<std::string()>& advice = {});

}  // namespace fp
