#include "ranks.h"

#include <cstdlib>

#include "base/log.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "comm/backends.h"
#include "device.h"
#include "launch/fault.h"
#include "launch/placement.h"
#include "plan/layout.h"

namespace fp {
namespace {

PhaseTimeouts timeouts(const WatchdogSection& w) {
  return {{"start", w.setup_s},
          {"set-up", w.setup_s},
          {"step", w.step_s},
          {"evaluation", w.evaluation_s},
          {"save", w.save_s}};
}

}  // namespace

Ranks::Ranks() : environment_(read_environment()) {}

Ranks::~Ranks() { set_progress_hook({}); }

void Ranks::start(RunSpec& spec) {
  check_fault_request();
  start(arrange(spec, environment_.size), spec.watchdog);
}

void Ranks::start(const Mesh& mesh, const WatchdogSection& watchdog) {
  mesh_ = mesh;
  if (mesh_.pp() > 1) {  // receives that wait on the device must not hold up other streams, or kernels yet to be loaded
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  }
  if (environment_.size == 1) {
    host_ = std::make_unique<World>(0, 1);
  } else {
    check_joinable(environment_);
    host_ = make_mpi_world();
    check_world(environment_, host_->rank(), host_->size());
  }
  world_ = host_.get();
  everybody_ = host_->group("launch", mesh_.world());
  if (mesh_.size() == 1) return;
  set_progress_hook([this] { world_->record().tick(); });
  world_->record().enter_phase("set-up", 0);
  lifeline_.emplace(world_->rank(), world_->size(), world_->record(),
                    LifelineOptions{watchdog.heartbeat_s, timeouts(watchdog)});
  lifeline_->join(everybody_->broadcast(lifeline_->address(), 0));
}

Ops& Ranks::open_device(const RunSpec& spec) {
  ops_ = fp::open_device(spec.run.device, spec.run.threads, environment_.local_rank);
  std::vector<RankPlace> places;
  const RankPlace here = place_of_this_process(std::string(ops_->name()), ops_->device_id());
  for (const std::string& text : everybody_->all_gather(to_text(here))) places.push_back(place_from_text(text));
  check_gpu_sharing(places, spec.parallel.allow_gpu_sharing);
  if (spec.run.threads == 0) set_threads(threads_of(places, world_->rank()));
  if (mesh_.size() == 1) return *ops_;
  if (world_->rank() == 0)
    log::info("{} ranks: {}\n{}", mesh_.size(), describe(spec.parallel), placement_table(places));
  host_->attach(*ops_);
  // Ranks that share a GPU cannot use NCCL: they go through host memory, as ranks on CPUs do.
  if (!here.device_id.empty() && !spec.parallel.allow_gpu_sharing) {
    device_world_ = make_nccl_world(*host_, *ops_);
    world_ = device_world_.get();
    lifeline_->watch(world_->record());
  }
  return *ops_;
}

ExitCode Ranks::run(const std::function<ExitCode()>& work) {
  if (!lifeline_) return work();
  try {
    const ExitCode code = work();
    lifeline_->close();
    return code;
  } catch (const CommError& e) {
    lifeline_->fail(static_cast<int>(e.code()), e.what(), Blame::peer);
  } catch (const UserError& e) {
    lifeline_->fail(static_cast<int>(e.code()), e.what());
  } catch (const std::exception& e) {
    lifeline_->fail(1, fmt::format("internal error, please report it: {}", e.what()));
  }
}

void know_rank() {
  const LaunchEnvironment e = read_environment();
  log::configure(log::Level::info, e.rank, e.size);
}

void require_one_rank(const std::string& command) {
  const LaunchEnvironment e = read_environment();
  if (e.size > 1)
    throw ConfigError(
        fmt::format("fptrain {} runs on one rank, not on {}; start it without mpirun or srun", command, e.size));
}

}  // namespace fp
