// restarts.json of a run directory: what the lives of a run in Slurm jobs know of those before. It is no part of the
// run's state: where it cannot be read or written, a warning says so and the run goes on; a broken one is set aside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "config/run_spec.h"
#include "launch/slurm.h"

namespace fp {

// The step that a life really went on from, 0 for a fresh run; nothing while that is not known: it has not got through
// set-up yet, and may never do.
using FirstStep = std::optional<int64_t>;

// ConfigError when the last two lives of the job gained nothing: they never knew their step, or it is the one where
// this life would begin. Changes nothing: all ranks may ask, and come to the same answer.
void require_progress(const std::filesystem::path& file, const SlurmJob&, FirstStep);
// A step takes the place of what was noted of the same life; nothing does not.
void note_start(const std::filesystem::path& file, const SlurmJob&, FirstStep);

// Both, first thing in a rank of a Slurm job, before anything that takes long: else a job that never gets through
// set-up would be forgotten. Outside a job, nothing.
void begin_life(const RunSpec&, bool leads);
// Both again once the step is known, on the rank that leads, which holds the run directory's lock.
void begin_from(const RunSpec&, const SlurmJob&, int64_t step);

// How long a save took, and the last one that was noted.
void note_save(const std::filesystem::path& file, double seconds);
std::optional<double> last_save(const std::filesystem::path& file);

}  // namespace fp
