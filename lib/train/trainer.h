// Trainer: a run from its spec to its last checkpoint.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "comm/comm.h"
#include "config/run_spec.h"
#include "ops/counting.h"
#include "plan/mesh.h"
#include "train/comparison.h"

namespace fp {

struct TrainRequest {
  RunSpec spec;                              // resolved, valid for training
  std::string resume = "auto";               // auto | none | path of a checkpoint
  bool allow_data_change = false;            // resume although the data, its order or the seed are not the checkpoint's
  std::string version;                       // of fptrain
  std::optional<Forecast> forecast = {};     // what the plan takes, where that is known
  double save_bytes_per_s = 0;               // of all nodes, as measured before; 0: not known
  std::function<std::string()> advice = {};  // what would fit, where this does not; asked on rank 0
  std::function<void()> on_failure = {};     // in a handler of what ended training, before its memory is given back
};

// ok: all steps done. interrupted: state saved after a signal. Throws UserError for everything that stops a run early:
// ConfigError and DataError in set-up, DivergedError when training went non-finite under policy `stop`, DeviceError
// when a device failed or ranks hold what they should not, InfrastructureError when files, peers or the folder's lease
// are lost. Called by every rank of the world with the same request, whose mesh is that of arrange().
ExitCode run_training(const TrainRequest&, Ops&, CountingOps&, World&, const Mesh&);

}  // namespace fp
