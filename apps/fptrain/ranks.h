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
#include "launch/environment.h"
#include "launch/lifeline.h"
#include "ops/ops.h"
#include "plan/mesh.h"

namespace fp {

class Ranks {
 public:
  Ranks();
  ~Ranks();

  // Starts communication. Resolves and checks spec.parallel against the ranks there are: ConfigError before anything is
  // allocated.
  void start(RunSpec&);
  // The same for work that has no run spec.
  void start(const Mesh&, const WatchdogSection&);
  // This rank's device, with the threads that are its share; says where all ranks are. ConfigError when ranks would
  // share a GPU unasked.
  Ops& open_device(const RunSpec&);

  World& world() { return *world_; }
  const Mesh& mesh() const { return mesh_; }

  // Runs `work` on every rank. An exception on one of them ends all, with its message and its exit code.
  ExitCode run(const std::function<ExitCode()>& work);

 private:
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
