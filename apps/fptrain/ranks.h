// The ranks of a training run: from how this process was launched to a world whose ranks know their devices and die
// together.
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
#include "ops/ops.h"
#include "plan/mesh.h"

namespace fp {

class Ranks {
 public:
  Ranks();
  ~Ranks();

  // What rank 0 makes of the number of ranks, on all of them, before start() or between the last two below. A UserError
  // there is thrown on all.
  std::string decide(const WatchdogSection&, const std::function<std::string(int ranks)>& on_rank_0);
  // Starts communication. Resolves and checks spec.parallel against the ranks there are: ConfigError before anything is
  // allocated.
  void start(RunSpec&);
  // The same for work that has no run spec, or none that is arranged yet.
  void start(const Mesh&, const WatchdogSection&);
  // All ranks in one data-parallel group, for measuring before rearrange() makes them what was decided then.
  void start_unplanned(const WatchdogSection&);
  void rearrange(RunSpec&);
  // This rank's device, with the threads that are its share; says where all ranks are. ConfigError when ranks would
  // share a GPU unasked.
  Ops& open_device(const RunSpec&);

  World& world() { return *world_; }
  const Mesh& mesh() const { return mesh_; }
  Group& everybody() { return *everybody_; }
  int on_this_host() const { return environment_.local_size; }

  // Runs `work` on every rank. An exception on one of them ends all, with its message and its exit code.
  ExitCode run(const std::function<ExitCode()>& work);

 private:
  void connect();
  std::unique_ptr<Deadline> deadline(const WatchdogSection&) const;
  static void expect_pipeline();

  LaunchEnvironment environment_;
  std::unique_ptr<Ops> ops_;  // outlives the worlds that move its tensors
  std::unique_ptr<World> host_, device_world_;
  World* world_ = nullptr;
  std::shared_ptr<Group> everybody_;
  Mesh mesh_;
  std::optional<Lifeline> lifeline_;
};

// First thing in a process: from here on only rank 0 talks, unless something is wrong.
void know_rank();
// Commands that run on one rank: ConfigError under mpirun or srun with several.
void require_one_rank(const std::string& command);

}  // namespace fp
