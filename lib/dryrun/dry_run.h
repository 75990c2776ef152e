// The dry run: the real model and executor code on counting ops and an arena without memory. It predicts the memory,
// FLOPs and traffic of a step before anything is allocated.
#pragma once

#include <array>
#include <set>
#include <string>

#include "comm/record.h"
#include "config/run_spec.h"
#include "data/sampling/batch.h"
#include "ops/counting.h"
#include "sharding/mesh.h"
#include "sharding/pipeline_plan.h"
#include "tensor/arena.h"

namespace fp {

struct Prediction {
  size_t arena_bytes = 0;      // exact size of the run's arena
  size_t used_bytes = 0;       // peak bytes in use in the arena; the rest is fragmentation
  size_t scratch_bytes = 0;    // scratch memory that the backend needs for its calls
  size_t own_bytes = 0;        // memory that the backend holds beside the arena, with that much scratch
  size_t host_bytes = 0;       // communication buffers of ranks on CPUs
  size_t reserved_bytes = 0;   // on a GPU: for libraries, which allocate after the arena (dryrun/device_reserve.h)
  size_t staging_bytes = 0;    // host memory for background saves
  size_t offloaded_bytes = 0;  // exact size of the run's arena in host memory
  bool on_host = true;         // tensors are in host memory, which must hold all of this
  BytesByClass by_class{};     // at the peak
  BytesByClass offloaded{};    // the same of the arena in host memory
  std::string moment;          // of the peak: "micro-batch 3 of 8, backward of layer 11"
  Counts passes;               // forward and backward of `counted` micro-batches, including recomputation
  int64_t counted = 1;
  Counts update;                             // gradient norm and optimizer step
  std::array<int64_t, kCopyLanes> copied{};  // bytes that copies move in a step, by lane
  int64_t host_updates = 0;                  // bytes that the host's cores read and write in updates of a step
  TrafficTable traffic;                      // of the rank in a step
  int64_t parameters = 0;
  std::set<std::string> attention;  // the implementation that runs it, and why others were not chosen
  // Bytes beside the device's that a run keeps in host memory.
  size_t host_side_bytes() const { return staging_bytes + offloaded_bytes; }
  // Return the bytes that the run itself allocates, and the bytes that must be free for it.
  size_t device_bytes() const { return arena_bytes + own_bytes + host_bytes + (on_host ? host_side_bytes() : 0); }
  size_t required_bytes() const { return device_bytes() + reserved_bytes; }
  // Returns the bytes that memory.device_gib limits. On CPUs neither those of host_side_bytes() nor scratch memory
  // count, which depends on the number of threads: a plan within a budget stays so on other machines.
  size_t budgeted_device_bytes() const { return required_bytes() - (on_host ? host_side_bytes() + own_bytes : 0); }
};

// Predicts a step of one rank of the mesh; with a pipeline, all its micro-batches are counted. Throws ConfigError when
// the schedule is not possible for the run's batches. `model.vocab` must be set. Resets the counting ops.
Prediction dry_run(const RunSpec&, const ModelSection& model, CountingOps&, const Mesh& = {}, int rank = 0);
// The same with an existing result of plan_pipeline(), and the model of the spec.
Prediction dry_run(const RunSpec&, const PipelinePlan&, CountingOps&, const Mesh&, int rank);

// Returns the bytes that leave a node in a step, the mean over the nodes; 0 if there is only one node
// (parallel.ranks_per_node or node_size). Makes dry runs of all ranks or, beyond 256 ranks, of those of evenly spaced
// nodes: as many nodes as have 256 ranks together, but at least one.
double bytes_between_nodes(const RunSpec&, CountingOps&);

// Returns a batch of the run's shape. Its content does not matter, except that it has document masks when the run's
// batches may have them.
Batch shape_only(const RunSpec&);

// Device memory that the ranks sharing a device need, in bytes.
struct MemoryNeed {
  size_t bytes = 0, reserved = 0;  // required_bytes() of all these ranks, and the part of it for libraries
  int sharers = 1;                 // number of these ranks
};
MemoryNeed memory_need_of(const Prediction&);  // for a rank that has its device to itself
// Throws ConfigError when the device does not have this much memory, before the run has allocated any. The prediction
// is that of one of the ranks.
void require_fit(const Prediction&, const MemoryNeed&, const Ops& device);
// Throws ConfigError when a rank needs more memory of its device than memory.device_gib, or the ranks of its node more
// host memory, `host_bytes` in all, than memory.host_gib.
void require_within_budget(const Prediction&, size_t host_bytes, const MemorySection&);
// Advice for a run that would fit without the staging areas of its background saves.
inline constexpr std::string_view kSpareStaging =
    "it would fit with checkpoint.asynchronous=false, and maybe with a smaller checkpoint.staging_mib";
// Return the name of the class with the most bytes, such as "activations"; empty where nothing is known. The second
// leaves out what budgeted_device_bytes() does not count.
std::string_view largest_class(const Prediction&);
std::string_view largest_device_class(const Prediction&);

// Returns a page for people: memory by class, FLOPs of a step.
std::string describe(const Prediction&, const RunSpec&);
// Returns text on which implementations run, and why others were not chosen.
std::string explain(const Prediction&);

}  // namespace fp
