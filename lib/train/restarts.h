// restarts.json of a run directory: the record by which a start of a run in a Slurm job knows the starts before it. It
// is not part of the run's state: when it cannot be read or written, a warning is logged and the run continues; a
// broken file is set aside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "config/run_spec.h"
#include "launch/slurm.h"

namespace fp {

// The step that a start really continued from, 0 for a fresh run; nullopt while it is not known, because set-up has not
// completed and may never do.
using FirstStep = std::optional<int64_t>;

// Throws ConfigError when the last two starts of the job made no progress: their step was never known, or it is the
// step at which this one would begin. Does not change the file, so that all ranks may call it, with the same result.
void require_progress(const std::filesystem::path& file, const SlurmJob&, FirstStep);
// Records a start. A known step replaces the record of the same start; nullopt does not.
void record_start(const std::filesystem::path& file, const SlurmJob&, FirstStep);

// Calls both, before anything that takes long in a rank of a Slurm job: otherwise a start that never completes set-up
// would leave no record. `leads`: whether this rank writes the file. Does nothing outside a job.
void check_and_record_start(const RunSpec&, bool leads);
// Calls both again once the step is known, on the leading rank, which holds the run directory's lease.
void check_and_record_step(const RunSpec&, const SlurmJob&, int64_t step);

struct RecordedSave {
  double seconds = 0;
  std::optional<int> ranks;  // nullopt: recorded by an earlier version
};
// Record how long a save took, and return the last one recorded (nullopt: none).
void record_save(const std::filesystem::path& file, const RecordedSave&);
std::optional<RecordedSave> last_save(const std::filesystem::path& file);

}  // namespace fp
