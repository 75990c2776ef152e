// Which node stood out when a run ended. The batch script of a Slurm job reads it and asks Slurm for others
// (launch/batch_script.h).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/slurm.h"
#include "launch/stall.h"

namespace fp {

// This machine as Slurm calls it, or its host name.
std::string node_name(const Variables& variable = process_variable);

// The node that all of these ranks are on while others are elsewhere; empty where it is not one, or has all ranks.
std::string suspect_node(std::span<const RankState> all, const std::vector<int>& ranks);

constexpr const char* kSuspectFile = "suspect-nodes.txt";
// Adds the line "JOB RESTARTS NODE" to the file of that name in the run directory; a warning where that fails. Nothing
// outside a Slurm job.
void note_suspect(const std::filesystem::path& run_directory, const std::optional<SlurmJob>&, const std::string& node);

}  // namespace fp
