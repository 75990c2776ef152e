// Compares the settings of a run with those of the checkpoint that it resumes.
#pragma once

#include <optional>
#include <string>

#include "config/run_spec.h"

namespace fp {

// Returns "optimizer.lr 0.001 -> 0.01, train.global_batch 4 -> 8": every key whose value differs, but for names and
// folders of the run. Empty if none does. Both specs must be resolved.
std::string changed_settings(const RunSpec& before, const RunSpec& now);

// Returns what raises the learning rate of the next step after a resume at `step`: a change of the settings, for
// example a longer run. nullopt if it is not above the rate that the settings before would have had, or the last one.
std::optional<std::string> raised_learning_rate(const RunSpec& before, const RunSpec& now, int64_t step);

// Returns "model.hidden: 96 here, 64 there" for each key by which two models differ, with `there` that of a checkpoint.
// Empty if none does.
std::string model_changes(const ModelSection& here, const ModelSection& there);

}  // namespace fp
