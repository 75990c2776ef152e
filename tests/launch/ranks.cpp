#include "launch/ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/filesystem.h"
#include "base/log.h"

#ifdef __SANITIZE_THREAD__
// Else each process that ends waits a second for reports to come.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
#endif

namespace fp_test {
namespace {

constexpr double kHang = 60;

// Memory that forked processes share.
struct Shared {
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

[[noreturn]] void be_rank(int rank, int size, int present, const fp::LifelineOptions& options, Shared& shared,
                          const std::function<void(RankContext)>& body) {
  fp::log::configure(fp::log::Level::info, rank, size);
  fp::CommRecord record;
  fp::Lifeline lifeline(rank, size, record, options);
  if (rank == 0) {
    lifeline.address().copy(shared.address.data(), shared.address.size() - 1);
    shared.has_address = true;
  }
  while (!shared.has_address) sleep_s(0.001);
  lifeline.join(shared.address.data());
  ++shared.joined;
  while (shared.joined < present) sleep_s(0.001);
  body({rank, lifeline, record, shared.fault_time});
  ::_exit(0);
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

int Outcome::count(const std::string& needle) const {
  int n = 0;
  for (size_t at = text.find(needle); at != std::string::npos; at = text.find(needle, at + 1)) ++n;
  return n;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Outcome run_ranks(int size, const fp::LifelineOptions& options, const std::function<void(RankContext)>& body,
                  int stopped, int absent) {
  std::string path = std::filesystem::temp_directory_path() / "fptrain-ranks-XXXXXX";
  const int file = ::mkstemp(path.data());
  REQUIRE(file >= 0);
  ::fcntl(file, F_SETFL, O_APPEND);
  const SharedMemory shared;
  Outcome o{std::vector<int>(size, -2), {}, "", 0};
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::dup2(file, STDERR_FILENO);
      be_rank(rank, size + absent, size, options, *shared, body);
    }
    o.pids.push_back(child);
  }
  const double start = now();
  for (int left = size; left > 0; sleep_s(0.002)) {
    for (int rank = 0; rank < size; ++rank) {
      int status = 0;
      if (o.codes[rank] != -2 || ::waitpid(static_cast<pid_t>(o.pids[rank]), &status, WNOHANG) <= 0) continue;
      o.codes[rank] = code_of(status);
      if (rank != stopped) o.after_fault_s = now() - (*shared).fault_time;
      --left;
    }
    const bool over = left == 1 && stopped >= 0 && o.codes[stopped] == -2;
    if (!over && now() - start < kHang) continue;
    for (int rank = 0; rank < size; ++rank) {
      if (o.codes[rank] != -2) continue;
      ::kill(static_cast<pid_t>(o.pids[rank]), SIGKILL);
      ::waitpid(static_cast<pid_t>(o.pids[rank]), nullptr, 0);
      o.codes[rank] = -1;
    }
    break;
  }
  ::close(file);
  o.text = fp::read_file(path);
  std::filesystem::remove(path);
  INFO(o.text);
  CHECK_FALSE(o.says("ThreadSanitizer"));
  return o;
}

void wait_in(RankContext c, const fp::CommRecord::Entry& entry) {
  c.record.begin_wait(entry);
  sleep_for_ever();
}

void sleep_for_ever() {
  for (;;) sleep_s(1000);
}

void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::vector<int> all(int size, int code) { return std::vector<int>(size, code); }

}  // namespace fp_test
