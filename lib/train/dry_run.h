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
#include "plan/pipeline.h"
#include "tensor/arena.h"

namespace fp {

struct Prediction {
  size_t arena_bytes = 0;     // what the run's arena needs, exactly
  size_t used_bytes = 0;      // of it at the most at a time; the rest are gaps between tensors of many sizes and lives
  size_t scratch_bytes = 0;   // what the backend has to set aside for its calls
  size_t own_bytes = 0;       // what that adds to what the backend holds already
  size_t host_bytes = 0;      // what communication needs beside that, where ranks are on CPUs
  size_t reserved_bytes = 0;  // of a GPU: what libraries take later than the arena (train/device_reserve.h)
  size_t staging_bytes = 0;   // host memory through which saves go on beside training
  bool on_host = true;        // tensors are in host memory: it has to hold all of this
  BytesByClass by_class{};    // at the moment of the peak
  std::string moment;         // when that is: "micro-batch 3 of 8, backward of layer 11"
  Counts passes;              // forward and backward of `counted` micro-batches, recompute included
  int64_t counted = 1;
  Counts update;         // gradient norm and optimizer step
  TrafficTable traffic;  // what the rank sends in a step
  int64_t parameters = 0;
  std::set<std::string> attention;  // what runs it, and why others were passed over
  // Bytes that the run itself allocates, and bytes that have to be free for that.
  size_t device_bytes() const { return arena_bytes + own_bytes + host_bytes + (on_host ? staging_bytes : 0); }
  size_t required_bytes() const { return device_bytes() + reserved_bytes; }
};

// Of one rank of the mesh, of all its micro-batches where there is a pipeline. ConfigError when its schedule cannot be
// had for the run's batches. `model` must have its vocabulary; counting is reset.
Prediction dry_run(const RunSpec&, const ModelSection& model, CountingOps&, const Mesh& = {}, int rank = 0);
// The same with a plan that is there already, plan_pipeline()'s; its model is that of the spec.
Prediction dry_run(const RunSpec&, const PipelinePlan&, CountingOps&, const Mesh&, int rank);

// A batch of the run's shape. Its content does not matter, except that documents are masked when they may be.
Batch shape_only(const RunSpec&);

// Memory that the ranks sharing a device need of it, in bytes.
struct MemoryNeed {
  size_t bytes = 0, reserved = 0;  // required_bytes() of all of them, and the part that libraries take
  int sharers = 1;
};
MemoryNeed need_of(const Prediction&);  // of a rank that shares its device with nobody
// ConfigError when the device has not as much memory as this: said before the run has touched any. The prediction is
// that of one of the ranks.
void require_fit(const Prediction&, const MemoryNeed&, const Ops& device);
// "activations"; empty where nothing is known.
std::string_view largest_class(const Prediction&);

// A page for people: memory by class, FLOPs of a step.
std::string describe(const Prediction&, const RunSpec&);
// Which implementations run, and why others were passed over.
std::string explain(const Prediction&);

}  // namespace fp
