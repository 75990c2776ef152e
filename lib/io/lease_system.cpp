#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/program.h"
#include "base/progress.h"
#include "base/random_digits.h"
#include "io/lease.h"
#include "io/retry.h"

namespace fp {
namespace {

std::string first_word_of(const char* file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

// State and start time of a process of this namespace; nullopt if the kernel does not show them.
struct ProcessFacts {
  char state = '?';
  int64_t start = 0;
};
std::optional<ProcessFacts> facts_of(int64_t process) {
  std::ifstream in(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t name_ends = text.rfind(')');  // the name may contain any character
  if (name_ends == std::string::npos) return {};
  std::istringstream fields(text.substr(name_ends + 1));
  ProcessFacts facts;
  fields >> facts.state;
  std::string ignored;
  for (int i = 4; i < 22; ++i) fields >> ignored;
  fields >> facts.start;
  return fields ? std::optional(facts) : std::nullopt;
}

}  // namespace

LeaseHolder LeaseSystem::self() {
  LeaseHolder h;
  h.nonce = random_digits();
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) h.host = name.data();
  h.boot = first_word_of("/proc/sys/kernel/random/boot_id");
  std::error_code ignored;
  h.pid_namespace = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  h.process = ::getpid();
  if (const auto facts = facts_of(h.process)) h.start = facts->start;
  if (const char* job = std::getenv("SLURM_JOB_ID")) h.job = job;
  return h;
}

bool LeaseSystem::runs(const LeaseHolder& h) {
  if (::kill(static_cast<pid_t>(h.process), 0) != 0 && errno == ESRCH) return false;
  const auto facts = facts_of(h.process);
  if (!facts) return true;  // it exists, but /proc hides it
  const bool ended = facts->state == 'Z' || facts->state == 'X';
  return !ended && (h.start == 0 || facts->start == h.start);
}

std::optional<bool> LeaseSystem::job_runs(const std::string& job) {
  const auto output = run_program({"squeue", "--noheader", "--jobs=" + job, "--format=%T"}, std::chrono::seconds(30));
  if (!output || output->code != 0) return {};
  std::istringstream states(output->text);
  constexpr std::array<std::string_view, 8> kRunning = {"RUNNING",   "COMPLETING", "SUSPENDED", "STOPPED",
                                                        "SIGNALING", "STAGE_OUT",  "RESIZING",  "CONFIGURING"};
  for (std::string state; states >> state;)
    if (std::ranges::find(kRunning, state) != kRunning.end()) return true;
  return false;
}

LeaseSystem::Time LeaseSystem::now(const std::filesystem::path& probe) {
  return with_retries([&] {
    struct stat info {};
    if (::utimensat(AT_FDCWD, probe.c_str(), nullptr, 0) != 0 || ::stat(probe.c_str(), &info) != 0)
      fail_reading("get the file system's time from", probe, errno);
    return std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec);
  });
}

void LeaseSystem::wait(std::chrono::milliseconds time, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPiece{1000};
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  for (; time.count() > 0 && !stop.stop_requested(); time -= kPiece) {
    wake.wait_for(lock, stop, std::min(time, kPiece), [&] { return stop.stop_requested(); });
    progress();
  }
}

LeaseSystem& real_lease_system() {
  static LeaseSystem machine;
  return machine;
}

}  // namespace fp
