// The dry run: the same model and executor code on counting Ops and an arena without memory. What a step needs and
// does, before anything is allocated.
#pragma once

#include <set>
#include <string>

#include "comm/record.h"
#include "config/run_spec.h"
#include "data/batch.h"
#include "ops/counting.h"
#include "plan/mesh.h"
#include "tensor/arena.h"

namespace fp {

struct Prediction {
  size_t arena_bytes = 0;    // what the run's arena needs, exactly
  size_t scratch_bytes = 0;  // what the backend has to set aside for its calls
  size_t own_bytes = 0;      // what that adds to what the backend holds already
  size_t host_bytes = 0;     // what communication needs beside that, where ranks are on CPUs
  BytesByClass by_class{};   // at the moment of the peak
  Counts passes;             // forward and backward of `counted` micro-batches, recompute included
  int64_t counted = 1;
  Counts update;         // gradient norm and optimizer step
  TrafficTable traffic;  // what the rank sends in a step
  int64_t parameters = 0;
  std::set<std::string> attention;  // what runs it, and why others were passed over
  size_t device_bytes() const { return arena_bytes + own_bytes + host_bytes; }
};

// Of one rank of the mesh, of all its micro-batches where there is a pipeline. ConfigError when its schedule cannot be
// had for the run's batches. `model` must have its vocabulary; counting is reset.
Prediction dry_run(const RunSpec&, const ModelSection& model, CountingOps&, const Mesh& = {}, int rank = 0);

// A batch of the run's shape. Its content does not matter, except that documents are masked when they may be.
Batch shape_only(const RunSpec&);

// ConfigError when the device has not as much memory as this needs: said before the run has touched any. `bytes`: of
// all the ranks that share the device.
void require_fit(size_t bytes, const Ops& device, int sharers = 1);

// A page for people: memory by class, FLOPs of a step.
std::string describe(const Prediction&, const RunSpec&);
// Which implementations run, and why others were passed over.
std::string explain(const Prediction&);

}  // namespace fp
