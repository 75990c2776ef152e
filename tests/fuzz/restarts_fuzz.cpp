#include "base/error.h"
#include "target.h"
#include "train/restarts.h"

// Arbitrary bytes as restarts.json of a Slurm job: whatever the file contains, the next start uses what is valid and
// adds its own entry.
FP_FUZZ_TARGET(restarts) {
  fp_fuzz::silence_log();
  fp_fuzz::clear_scratch();
  const auto file = fp_fuzz::write_scratch("restarts.json", fp_fuzz::text_of(data, size));
  const fp::SlurmJob job{"17", 3, {}};
  for (const fp::FirstStep step : {fp::FirstStep(), fp::FirstStep(40)}) {
    fp_fuzz::accept_or_refuse([&] { fp::require_progress(file, job, step); });
    fp::last_save(file);
    fp::record_start(file, job, step);
  }
  fp::record_save(file, {1.5, 4});
  FP_CHECK(fp::last_save(file)->seconds == 1.5, "a recorded save is missing");
  return 0;
}
