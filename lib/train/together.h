// What the ranks of a run do together outside its steps. Every rank calls each of these; what fails on one rank fails
// on all, with the same message.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "train/dry_run.h"

namespace fp {

// Runs `work` on rank 0 and gives its result to all; a UserError there is thrown on all.
std::string on_rank_0(Group& world, const std::function<std::string()>& work);

// As checkpoint_to_resume(), of which rank 0 alone reads all bytes.
std::optional<Checkpoint> choose_checkpoint(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                            const ParamTable& table, Group& world);

// Fills the stores of all ranks; DataError when what they hold, taken together, is not what was saved. Compute weights
// of other shards are left to who gathers them.
void load_together(const Checkpoint&, ParamStore&, Ops&, Group& world);

// Every rank writes what it answers for. DataError leaves the earlier checkpoints as they were.
std::filesystem::path save_together(const std::filesystem::path& checkpoints_dir, const ParamStore&, Ops&,
                                    const TrainState&, const SaveOptions&, Group& world);

// ConfigError when the ranks that share a device need more memory than it has.
void require_fit_together(const Prediction&, const Ops&, Group& world);

}  // namespace fp
