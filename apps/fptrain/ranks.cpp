#include "ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/log.h"
#include "base/memory_error.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "comm/backends.h"
#include "device.h"
#include "dryrun/setup.h"
#include "host/build_id.h"
#include "io/filesystem.h"
#include "launch/descriptors.h"
#include "launch/fault.h"
#include "launch/member.h"
#include "launch/placement.h"
#include "launch/slurm.h"
#include "launch/suspect.h"
#include "sharding/arrange.h"
#include "train/coordination.h"

namespace fp {
namespace {

PhaseTimeouts timeouts(const WatchdogSection& w) {
  return {{"start", w.setup_s},           {"set-up", w.setup_s}, {"data", w.data_s},        {"step", w.step_s},
          {"evaluation", w.evaluation_s}, {"save", w.save_s},    {"farewell", w.farewell_s}};
}

NodeMap nodes_of(const RunSpec& spec, const std::vector<RankPlace>& places) {
  if (spec.parallel.ranks_per_node > 0) return fp::nodes_of(spec.parallel, static_cast<int>(places.size()));
  std::vector<std::string> hosts;
  for (const RankPlace& p : places) hosts.push_back(p.host);
  return NodeMap(hosts);
}

void warn_of_threads(int threads) {
  const int cores = available_cores();
  if (threads > cores && log::rank() == 0)
    log::warning(
        "run.threads = {}, but this process may use {} core{}: threads that share a core make a run slower "
        "(0: one thread per core)",
        threads, cores, cores == 1 ? "" : "s");
}

}  // namespace

Ranks::Ranks() : environment_(read_environment()), before_join_(deadline(WatchdogSection())) {
  allow_all_descriptors();
}

Ranks::~Ranks() { set_progress_hook({}); }

// Limits the time of collectives before the lifeline exists. Rank 0 has the shorter limit, so that it reports first.
std::unique_ptr<Deadline> Ranks::deadline(const WatchdogSection& w) const {
  if (environment_.size == 1 || w.setup_s <= 0) return nullptr;
  return std::make_unique<Deadline>(
      w.setup_s + (environment_.rank == 0 ? 0 : 5),
      fmt::format("the {} ranks have not connected within {} s (watchdog.setup_s): one of them hangs, has not been "
                  "started or cannot be reached",
                  environment_.size, w.setup_s));
}

std::string Ranks::decide(const std::function<std::string(int)>& on_rank_0) {
  return fp::on_rank_0(*all_ranks_, [&] {
    maybe_fault(0, 0, "planning");
    return on_rank_0(environment_.size);
  });
}

void Ranks::require_same(Facts facts, const RankResult& read) {
  facts.emplace(facts.begin(), "the build of fptrain", build_id());
  require_same_start(*all_ranks_, read, facts);
}

void Ranks::require_same(Facts facts) { require_same(std::move(facts), RankResult()); }

void Ranks::require_same_command_line() {
  Facts facts;
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  std::string program;
  std::getline(arguments, program, '\0');
  for (std::string argument; std::getline(arguments, argument, '\0');)
    facts.emplace_back(fmt::format("argument {} of the command", facts.size() + 1), argument);
  require_same(std::move(facts));
}

void Ranks::connect() {
  if (environment_.size == 1) {
    host_ = std::make_unique<World>(0, 1);
  } else {
    check_joinable(environment_);
    host_ = make_mpi_world();
    check_world(environment_, host_->rank(), host_->size());
  }
  world_ = host_.get();
  std::vector<int> all(static_cast<size_t>(host_->size()));
  std::iota(all.begin(), all.end(), 0);
  all_ranks_ = host_->group("launch", all);
}

void Ranks::take(const Mesh& mesh) {
  mesh_ = mesh;
  if (mesh_.pp() > 1) expect_pipeline();
}

void Ranks::arrange(RunSpec& spec) { take(fp::arrange(spec, environment_.size)); }

void Ranks::arrange_for_measuring() {
  expect_pipeline();
  take(Mesh(1, environment_.size, 1, 1, environment_.size));
}

// Receives that wait on the device must not block other streams or the lazy loading of kernels.
void Ranks::expect_pipeline() {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

void Ranks::start(const Mesh& mesh, const WatchdogSection& watchdog) {
  take(mesh);
  join(watchdog);
}

void Ranks::join(const WatchdogSection& watchdog) {
  // Groups connect when they are created: in a step, NCCL would allocate beside receives that wait on the device.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  check_fault_request();
  before_join_.reset();
  const auto limit = deadline(watchdog);
  connect();
  set_progress_hook([this] { world_->record().tick(); });
  world_->record().enter_phase("set-up", 0);
  lifeline_.emplace(world_->rank(), world_->size(), world_->record(),
                    LifelineOptions{.heartbeat_s = watchdog.heartbeat_s,
                                    .timeouts_s = timeouts(watchdog),
                                    .connect_s = watchdog.connect_s,
                                    .one_host = environment_.local_size == environment_.size,
                                    .suspect = suspect()});
  lifeline_->join(all_ranks_->broadcast(lifeline_->address(), 0));
}

std::function<void(const std::string&)> Ranks::suspect() const {
  if (run_directory_.empty()) return {};
  return
      [directory = run_directory_, job = slurm_job()](const std::string& node) { note_suspect(directory, job, node); };
}

// Returns this rank's place with its device, or the reason why it has none: other ranks may have theirs.
RankPlace Ranks::find_device(const RunSpec& spec) {
  std::string missing;
  warn_of_threads(spec.run.threads);
  try {
    ops_ = fp::open_device(spec.run.device, spec.run.threads, environment_.local_rank, true);
  } catch (const ConfigError& e) {
    missing = e.what();
  }
  RankPlace here = ops_ ? place_of_this_process(std::string(ops_->name()), ops_->device_id())
                        : place_of_this_process(std::string(name_of(spec.run.device)), "");
  here.missing = missing;
  return here;
}

Ops& Ranks::open_device(const RunSpec& spec) {
  std::vector<RankPlace> places;
  const RankPlace here = find_device(spec);
  for (const std::string& text : all_ranks_->all_gather(to_text(here))) places.push_back(place_from_text(text));
  if (const auto failure = missing_devices(places, spec.parallel.allow_gpu_sharing)) {
    const bool mine = std::ranges::find(failure->ranks, world_->rank()) != failure->ranks.end();
    if (mine) throw InfrastructureError(failure->text);
    throw CommError(failure->text);  // the failure is another rank's
  }
  check_gpu_sharing(places, spec.parallel.allow_gpu_sharing);
  if (mesh_.size() == 1) return *ops_;
  if (spec.run.threads == 0) set_threads(threads_of(places, world_->rank()));
  if (world_->rank() == 0)
    log::info("{} ranks: {}\n{}", mesh_.size(),
              spec.parallel.open.empty() ? describe(spec.parallel) : "parallel plan not chosen yet",
              placement_table(places));
  host_->attach(*ops_);
  // Ranks that share a GPU cannot use NCCL; they communicate through host memory, as ranks on CPUs do.
  if (!here.device_id.empty() && !spec.parallel.allow_gpu_sharing) {
    device_world_ = make_nccl_world(*host_, *ops_);
    world_ = device_world_.get();
    lifeline_->watch(world_->record());
  }
  world_->set_nodes(nodes_of(spec, places));
  return *ops_;
}

// Returns the result of `work`. If it runs out of memory, the error names phase and step.
ExitCode Ranks::within_memory(const std::function<ExitCode()>& work) const {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    const CommRecord::Activity now = world_->record().activity();
    throw MemoryError(out_of_memory(fmt::format("in phase '{}', step {}", now.phase, now.step)));
  }
}

ExitCode Ranks::run(const std::function<ExitCode()>& work) {
  if (!lifeline_) return work();
  if (environment_.size == 1) {  // main() reports errors
    const ExitCode code = within_memory(work);
    lifeline_->close();
    return code;
  }
  try {
    const ExitCode code = within_memory(work);
    disconnect();
    return code;
  } catch (...) {
    fail();
  }
}

// MPI lets no rank leave before all have arrived, so the lifeline watches this too.
void Ranks::disconnect() {
  std::fflush(nullptr);
  set_progress_hook({});
  world_->record().enter_phase("farewell", world_->record().activity().step);
  lifeline_->report();
  host_->disconnect();
  lifeline_->close();
}

void Ranks::fail() {
  try {
    throw;
  } catch (const CommError& e) {
    lifeline_->fail(static_cast<int>(e.code()), e.what(), Blame::peer);
  } catch (const UserError& e) {
    lifeline_->fail(static_cast<int>(e.code()), e.what(), e.is_of_another_rank() ? Blame::peer : Blame::self);
  } catch (const std::filesystem::filesystem_error& e) {
    lifeline_->fail(static_cast<int>(exit_code_of(e.code().value())), message_of(e));
  } catch (const std::exception& e) {
    lifeline_->fail(static_cast<int>(ExitCode::internal),
                    fmt::format("internal error, please report it: {}", e.what()));
  }
}

void configure_log_for_rank() {
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
