// Records the suspect node of a run that failed. The batch script of a Slurm job reads the record and asks Slurm to
// exclude that node (launch/batch_script.h).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/slurm.h"
#include "launch/stall.h"

namespace fp {

// Returns Slurm's name of this machine, or its host name outside Slurm.
std::string node_name(const Variables& variable = process_variable);

// Returns the node on which all of `ranks` run while other ranks run elsewhere; empty if they are on several nodes, or
// if all ranks are on that node.
std::string suspect_node(std::span<const RankState> all, const std::vector<int>& ranks);

constexpr const char* kSuspectFile = "suspect-nodes.txt";
// Appends the line "JOB RESTARTS NODE" to kSuspectFile in the run directory; logs a warning on failure. Does nothing
// outside a Slurm job.
void note_suspect(const std::filesystem::path& run_directory, const std::optional<SlurmJob>&, const std::string& node);

}  // namespace fp
