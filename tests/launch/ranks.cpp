#include "launch/ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "base/stopwatch.h"
#include "io/filesystem.h"

#ifdef __SANITIZE_THREAD__
// Otherwise each process waits a second for reports when it ends.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
#endif

namespace fp::test {
namespace {

constexpr double kHang = 600;  // seconds of real time, to turn a deadlock into a failure

// Memory that forked processes share.
struct Shared {
  DrivenTime time;
  std::atomic<int> joined{0};
  std::atomic<double> fault_time{0};
  std::array<char, 4096> address{};
  std::atomic<bool> has_address{false};
};

class SharedMemory {
 public:
  SharedMemory() {
    void* p = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    shared_ = new (p) Shared;
  }
  ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
  Shared& operator*() const { return *shared_; }

 private:
  Shared* shared_;
};

void pause_shortly() { std::this_thread::sleep_for(std::chrono::microseconds(500)); }

struct Family {
  std::vector<pid_t> pids;
  std::vector<int> codes;  // -2: still running
  std::vector<bool> stopped;

  std::vector<int> running() const {
    std::vector<int> list;
    for (size_t i = 0; i < pids.size(); ++i)
      if (codes[i] == -2 && !stopped[i]) list.push_back(static_cast<int>(i));
    return list;
  }
  bool any_left() const { return std::find(codes.begin(), codes.end(), -2) != codes.end(); }
  // Updates the states of the processes. Returns whether one has ended.
  bool poll() {
    bool any = false;
    for (size_t i = 0; i < pids.size(); ++i) {
      int status = 0;
      if (codes[i] != -2 || ::waitpid(pids[i], &status, WNOHANG | WUNTRACED) <= 0) continue;
      stopped[i] = WIFSTOPPED(status);
      if (stopped[i]) continue;
      codes[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      any = true;
    }
    return any;
  }
  void kill_rest() {
    for (size_t i = 0; i < pids.size(); ++i) {
      if (codes[i] != -2) continue;
      ::kill(pids[i], SIGKILL);
      ::waitpid(pids[i], nullptr, 0);
      codes[i] = -1;
    }
  }
};

// Advances the time until all processes have ended.
void drive(Family& family, Shared& shared, const RankOptions& options, double& ended_s) {
  TimeDriver driver(shared.time);
  bool was_stopped = false;
  const auto start = std::chrono::steady_clock::now();
  for (; family.any_left() && fp::seconds_since(start) < kHang; pause_shortly()) {
    if (family.poll()) {
      ended_s = shared.time.now_s();
      if (options.launcher_kills) break;
    }
    const std::vector<int> running = family.running();
    if (!running.empty()) {
      driver.poll(running);
    } else if (options.all_stopped_s > 0 && !was_stopped) {
      was_stopped = true;
      shared.time.now_ns += static_cast<int64_t>(options.all_stopped_s * 1e9);
      family.stopped.assign(family.stopped.size(), false);
      for (const pid_t pid : family.pids) ::kill(pid, SIGCONT);
    } else if (options.stopped >= 0) {
      break;
    }
  }
  family.kill_rest();
}

RanksOutcome run_family(int size, Shared& shared, const std::function<void(int process)>& body,
                        const RankOptions& options) {
  std::string path = std::filesystem::temp_directory_path() / "fptrain-ranks-XXXXXX";
  const int file = ::mkstemp(path.data());
  REQUIRE(file >= 0);
  ::fcntl(file, F_SETFL, O_APPEND);
  const auto count = static_cast<size_t>(size);
  Family family{{}, std::vector<int>(count, -2), std::vector<bool>(count, false)};
  for (int process = 0; process < size; ++process) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::dup2(file, STDERR_FILENO);
      body(process);
      ::_exit(0);
    }
    family.pids.push_back(child);
  }
  double ended_s = 0;
  drive(family, shared, options, ended_s);
  ::close(file);
  RanksOutcome o{
      family.codes, {family.pids.begin(), family.pids.end()}, fp::read_file(path), ended_s - shared.fault_time};
  std::filesystem::remove(path);
  INFO(o.text);
  CHECK_FALSE(o.says("ThreadSanitizer"));
  return o;
}

void be_rank(int rank, int size, int present, const fp::LifelineOptions& options, DrivenClock& clock, Shared& shared,
             const std::function<void(RankContext)>& body) {
  fp::log::configure(fp::log::Level::info, rank, size);
  fp::CommRecord record;
  fp::Lifeline lifeline(rank, size, record, options);
  if (rank == 0) {
    lifeline.address().copy(shared.address.data(), shared.address.size() - 1);
    shared.has_address = true;
  }
  while (!shared.has_address) pause_shortly();
  lifeline.join(shared.address.data());
  ++shared.joined;
  while (shared.joined < present) pause_shortly();
  body({rank, lifeline, record, clock, shared.fault_time, shared.address.data()});
  ::_exit(0);
}

}  // namespace

fp::EndLimits generous_end() { return {.log_s = kHang, .flush_s = kHang, .stack_s = kHang, .longest_s = kHang}; }

RanksOutcome run_ranks(int size, fp::LifelineOptions options, const std::function<void(RankContext)>& body,
                       const RankOptions& more) {
  const SharedMemory shared;
  return run_family(
      size, *shared,
      [&](int rank) {
        DrivenClock clock((*shared).time, rank);
        options.clock = &clock;
        options.one_host = !more.over_interfaces;
        if (more.own_nodes) ::setenv("SLURMD_NODENAME", ("n" + std::to_string(rank)).c_str(), 1);
        // The others connect in real time; rank 0 waits for them by the driven clock.
        if (rank != 0) options.connect_s = kHang;
        be_rank(rank, size + more.absent, size, options, clock, *shared, body);
      },
      more);
}

RanksOutcome run_processes(int size, const std::function<void(int process, DrivenTime&)>& body,
                           const RankOptions& more) {
  const SharedMemory shared;
  return run_family(
      size, *shared, [&](int process) { body(process, (*shared).time); }, more);
}

void wait_in(RankContext c, const fp::CommRecord::Entry& entry) {
  c.record.begin_wait(entry);
  c.clock.sleep_for_ever();
}

std::vector<int> all(int size, int code) { return std::vector<int>(static_cast<size_t>(size), code); }

}  // namespace fp::test
