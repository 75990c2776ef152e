// Trains a model: runs a run spec from set-up to its last checkpoint.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "comm/comm.h"
#include "config/run_spec.h"
#include "ops/counting.h"
#include "sharding/mesh.h"
#include "train/comparison.h"

namespace fp {

struct TrainRequest {
  RunSpec spec;                              // resolved, valid for training
  std::string resume = "auto";               // auto | none | path of a checkpoint
  bool allow_data_change = false;            // resume although the data, its order or the seed have changed
  std::string version;                       // of fptrain
  std::optional<Forecast> forecast = {};     // the planner's prediction, where there is one
  double save_bytes_per_s = 0;               // of all nodes together, as measured before; 0: not known
  std::function<std::string()> advice = {};  // returns what would fit when the run does not; called on rank 0
  std::function<void()> on_failure = {};     // called when an exception ends training, before its memory is freed
};

// Runs training. Every rank of the world must call it with the same request, and with the mesh from arrange(). Returns
// `ok` when all steps are done and `interrupted` when the state was saved after a signal. Throws a UserError for
// everything that stops a run early: ConfigError and DataError in set-up, DivergedError when training went non-finite
// under policy `stop`, DeviceError when a device failed or ranks hold values that they should not, InfrastructureError
// when files, peers or the folder's lease are lost.
ExitCode run_training(const TrainRequest&, Ops&, CountingOps&, World&, const Mesh&);

}  // namespace fp
