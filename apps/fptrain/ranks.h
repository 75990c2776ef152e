// Sets up the ranks of a run: from the launch environment of this process to a world in which each rank has its device
// and a failure of one rank ends all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "comm/comm.h"
#include "config/run_spec.h"
#include "launch/deadline.h"
#include "launch/environment.h"
#include "launch/lifeline.h"
#include "launch/placement.h"
#include "ops/ops.h"
#include "sharding/mesh.h"
#include "train/agreement.h"

namespace fp {

// This process as one rank of a run, and its connections to the other ranks. Call join() or
// start() first, then run(); arrange() and open_device() belong inside run().
class Ranks {
 public:
  Ranks();
  ~Ranks();

  // Connects this rank to the others. Call it early: afterwards a failure in run() ends all ranks, and no rank waits
  // for another forever.
  void join(const WatchdogSection&);
  // Throws ConfigError on all ranks unless all run the same build and have equal facts. `read` is the result of
  // reading the facts (train/rank_result.h); it must be equal on all ranks and not an error.
  void require_same(Facts, const RankResult& read);
  void require_same(Facts);
  // Calls `on_rank_0` with the number of ranks on rank 0 and returns its result on every rank. A UserError that it
  // throws is thrown on every rank.
  std::string decide(const std::function<std::string(int ranks)>& on_rank_0);
  // Resolves spec.parallel for the number of ranks and sets mesh(). Throws ConfigError, before anything is allocated,
  // if that is impossible. May be called again with another spec.
  void arrange(RunSpec&);
  // Sets mesh() to one data-parallel group of all ranks, for measurements before the final arrange().
  void arrange_for_measuring();
  // Joins the other ranks for work without a run spec. Call it before run(), and require_same_command_line() first in
  // run().
  void start(const Mesh&, const WatchdogSection&);
  // Throws ConfigError on all ranks unless all have the same command line and build.
  void require_same_command_line();
  // Sets the run directory in which a Slurm job records the suspect node of a failure (launch/suspect.h). Call it
  // before join().
  void note_suspects_in(const std::string& run_directory) { run_directory_ = run_directory; }
  // Opens this rank's device, sets its number of threads and logs where all ranks are. Throws ConfigError if ranks
  // would share a GPU without parallel.allow_gpu_sharing or if no rank has the device; InfrastructureError if only some
  // nodes lack it.
  Ops& open_device(const RunSpec&);

  World& world() { return *world_; }
  const Mesh& mesh() const { return mesh_; }
  Group& all_ranks() { return *all_ranks_; }
  bool alone() const { return environment_.size == 1; }
  int on_this_host() const { return environment_.local_size; }
  // Returns ParallelSection::node_size of this run. Call it after open_device().
  int node_size() const {
    const NodeMap& nodes = world_->nodes();
    return nodes.nodes() == 1 ? world_->size() : std::max(1, nodes.ranks_per_node());
  }

  // Ends all ranks with the message and the exit code of the current exception. Only for runs of several ranks.
  [[noreturn]] void fail();
  // Runs `work`. An exception on one of several ranks ends all of them, with its message and exit code.
  ExitCode run(const std::function<ExitCode()>& work);

 private:
  void connect();
  std::function<void(const std::string&)> suspect() const;
  RankPlace find_device(const RunSpec&);
  std::unique_ptr<Deadline> deadline(const WatchdogSection&) const;
  void take(const Mesh&);
  void disconnect();
  static void expect_pipeline();
  ExitCode within_memory(const std::function<ExitCode()>& work) const;

  LaunchEnvironment environment_;
  std::unique_ptr<Deadline> before_join_;  // until then nothing else ends a rank that waits for a file system
  std::string run_directory_;
  std::unique_ptr<Ops> ops_;  // outlives the worlds that move its tensors
  std::unique_ptr<World> host_, device_world_;
  World* world_ = nullptr;
  std::shared_ptr<Group> all_ranks_;
  Mesh mesh_;
  std::optional<Lifeline> lifeline_;
};

// Configures the log by this process's rank: only rank 0 logs, except for warnings and errors. Call it first in a
// process.
void configure_log_for_rank();
// Throws ConfigError if this process is one of several ranks, for commands that run on one.
void require_one_rank(const std::string& command);

}  // namespace fp
