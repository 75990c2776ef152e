// Trainer: a run from its spec to its last checkpoint.
#pragma once

#include <string>

#include "base/error.h"
#include "config/run_spec.h"
#include "model/groups.h"
#include "ops/counting.h"

namespace fp {

struct TrainRequest {
  RunSpec spec;                    // resolved, valid for training
  std::string resume = "auto";     // auto | none | path of a checkpoint
  bool allow_data_change = false;  // resume although the data, its order or the seed are not the checkpoint's
  std::string version;             // of fptrain
};

// ok: all steps done. interrupted: state saved after a signal. Throws UserError for everything that stops a run early:
// ConfigError and DataError in set-up, DivergedError when training went non-finite under policy `stop`.
ExitCode run_training(const TrainRequest&, Ops&, CountingOps&, const Groups&);

}  // namespace fp
