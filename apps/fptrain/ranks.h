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
#include "launch/placement.h"
#include "ops/ops.h"
#include "plan/mesh.h"
#include "train/agreement.h"

namespace fp {

class Ranks {
 public:
  Ranks();
  ~Ranks();

  // Brings this rank together with the others, before anything is decided or takes long: from here on a failure in
  // run() ends all ranks, and none waits for another for ever.
  void join(const WatchdogSection&);
  // ConfigError on all ranks unless all run this very program and have the same facts. With an `outcome` they have come
  // to it by reading what the facts are of, and that too must be the same, and no error.
  void require_same(Facts, const std::string& outcome);
  void require_same(Facts);
  // Calls `on_rank_0` with the number of ranks on rank 0 and returns its result on every rank. A UserError that it
  // throws is thrown on every rank.
  std::string decide(const std::function<std::string(int ranks)>& on_rank_0);
  // Resolves and checks spec.parallel against the ranks there are: ConfigError before anything is allocated. May be
  // called again when something else was decided.
  void arrange(RunSpec&);
  // All ranks in one data-parallel group, for measuring before arrange() makes them what was decided then.
  void arrange_for_measuring();
  // For work that has no run spec: joins the others, who must have been given the same command line. To be called
  // before run(), in which require_same_command_line() comes first.
  void start(const Mesh&, const WatchdogSection&);
  void require_same_command_line();
  // Sets the run directory in which a Slurm job records a node that it blames for its end (launch/suspect.h). Call it
  // before join().
  void note_suspects_in(const std::string& run_directory) { run_directory_ = run_directory; }
  // This rank's device, with the threads that are its share; says where all ranks are. ConfigError when ranks would
  // share a GPU unasked, or none has the device; InfrastructureError when a node lacks what the others have.
  Ops& open_device(const RunSpec&);

  World& world() { return *world_; }
  const Mesh& mesh() const { return mesh_; }
  Group& everybody() { return *everybody_; }
  bool alone() const { return environment_.size == 1; }
  int on_this_host() const { return environment_.local_size; }

  // Ends all ranks with the message and the exit code of the exception being handled. Only in a run of several ranks.
  [[noreturn]] void fail();
  // Runs `work` on every rank. An exception on one of them ends all, with its message and its exit code.
  ExitCode run(const std::function<ExitCode()>& work);

 private:
  void connect();
  std::function<void(const std::string&)> suspect() const;
  RankPlace find_device(const RunSpec&);
  std::unique_ptr<Deadline> deadline(const WatchdogSection&) const;
  void take(const Mesh&);
  static void expect_pipeline();

  LaunchEnvironment environment_;
  std::string run_directory_;
  std::unique_ptr<Ops> ops_;  // outlives the worlds that move its tensors
  std::unique_ptr<World> host_, device_world_;
  World* world_ = nullptr;
  std::shared_ptr<Group> everybody_;
  Mesh mesh_;
  std::optional<Lifeline> lifeline_;
  double farewell_s_ = 0;
  ExitCode code_ = ExitCode::ok;  // what run() has come to
};

// First thing in a process: from here on only rank 0 talks, unless something is wrong.
void know_rank();
// Commands that run on one rank: ConfigError under mpirun or srun with several.
void require_one_rank(const std::string& command);

}  // namespace fp
