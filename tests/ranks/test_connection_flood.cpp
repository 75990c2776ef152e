// Attacks on a run by another user of the machine through rank 0's port.
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <sstream>

#include "launch/descriptors.h"
#include "launch/raw_connections.h"
#include "ranks/job.h"
#include "support/skip.h"

using namespace fp::test;

namespace {

constexpr size_t kConnections = 1500;
constexpr long kMostGrowthKiB = 16 * 1024;

pid_t rank_of(const Job& job, int rank) {
  for (const pid_t pid : job.ranks()) {
    const std::string variables = slurp(std::filesystem::path("/proc") / std::to_string(pid) / "environ");
    if (variables.find(fmt::format("OMPI_COMM_WORLD_RANK={}", rank) + '\0') != std::string::npos) return pid;
  }
  return -1;
}

long resident_kib(pid_t pid) {
  const std::string status = slurp(std::filesystem::path("/proc") / std::to_string(pid) / "status");
  const size_t at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::stol(status.substr(at + 6));
}

// Returns the ports of the loopback address on which a process listens.
std::vector<uint16_t> loopback_ports(pid_t pid) {
  std::vector<std::string> inodes;
  const std::filesystem::path process = std::filesystem::path("/proc") / std::to_string(pid);
  for (const auto& fd : std::filesystem::directory_iterator(process / "fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(fd.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.push_back(target.substr(8, target.size() - 9));
  }
  std::vector<uint16_t> ports;
  std::istringstream table(slurp(process / "net" / "tcp"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    const bool mine = std::find(inodes.begin(), inodes.end(), inode) != inodes.end();
    if (mine && state == "0A" && local.starts_with("0100007F:"))
      ports.push_back(static_cast<uint16_t>(std::stoul(local.substr(9), nullptr, 16)));
  }
  return ports;
}

// A process of another user, if this one is root. It writes one byte for each report.
class OtherUser {
 public:
  explicit OtherUser(const std::function<void(const std::function<void()>& report)>& body) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    reports_ = fp::FileDescriptor(ends[0]);
    const fp::FileDescriptor out(ends[1]);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    const bool root = ::geteuid() == 0;
    // When root may not become another user, the flood comes from root.
    if (root && ::setgroups(0, nullptr) == 0 && ::setgid(65534) == 0 && ::setuid(65534) != 0) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body([&] { [[maybe_unused]] const ssize_t n = ::write(out.get(), "!", 1); });
    ::_exit(0);
  }
  ~OtherUser() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  // Returns false when the process or the job ended without a report.
  bool wait_for_report(Job& job) const {
    for (pollfd p{reports_.get(), POLLIN, 0}; !job.ranks().empty();) {
      char byte = 0;
      if (::poll(&p, 1, 50) == 1) return ::read(reports_.get(), &byte, 1) == 1;
    }
    return false;
  }

 private:
  fp::FileDescriptor reports_;
  pid_t pid_ = -1;
};

// Opens idle connections and ones that send long lines, garbage, or a byte at a time, and replaces those that are
// dropped. Reports each time that kConnections have been dropped.
void flood(uint16_t port, const std::function<void()>& report) {
  std::deque<fp::FileDescriptor> held(kConnections);
  const std::string line(100000, 'x'), garbage = "\x01\xff garbage\n";
  for (size_t gone = 0, round = 0;; ++round) {
    for (size_t i = 0; i < held.size(); ++i) {
      if (held[i].get() >= 0 && i % 4 == 3) send_raw(held[i], "c");
      if (held[i].get() >= 0 && !is_dropped(held[i])) continue;
      gone += round > 0 ? 1 : 0;
      held[i] = connect_to(port);
      if (i % 4 == 1) send_raw(held[i], line);
      if (i % 4 == 2) send_raw(held[i], garbage);
      if (gone == kConnections && i + 1 == held.size()) break;
    }
    connect_to(port);  // closed at once
    if (gone >= kConnections) report(), gone = 0;
    ::poll(nullptr, 0, 20);
  }
}

}  // namespace

TEST_CASE("a flood of connections before and after joining stops neither training nor saves", "[ranks]") {
  if (fp::allow_all_descriptors() < static_cast<int64_t>(kConnections + 100))
    FP_SKIP("1,500 connections take more descriptors than this process may have");
  if (fp::test::listen_backlog() < 2000) FP_SKIP("net.core.somaxconn is too small for 1,500 connections");
  const RanksWorkspace w;
  std::vector<std::string> command = w.train(w.spec("llama"), "flooded", {.data = 2},
                                             {"--set", "train.steps=1000000", "--set", "checkpoint.keep_last=2",
                                              "--set", "watchdog.heartbeat_s=0.2", "--set", "watchdog.connect_s=1500"});
  const auto program = std::find(command.begin(), command.end(), FP_EXECUTABLE);
  command.insert(program, {"/usr/bin/env", std::string("LD_PRELOAD=") + FP_STOP_BEFORE_JOINING});
  Job job(command);
  job.wait_for_stopped_rank();
  CAPTURE(job.output());
  const pid_t rank_0 = rank_of(job, 0), rank_1 = rank_of(job, 1);
  REQUIRE(rank_0 > 0);
  REQUIRE(rank_1 > 0);
  std::vector<uint16_t> ports;
  while (ports.empty() && !job.ranks().empty()) ports = loopback_ports(rank_0);
  REQUIRE(ports.size() == 1);
  {
    const long before = resident_kib(rank_0);
    const OtherUser other([&](const auto& report) { flood(ports[0], report); });
    REQUIRE(other.wait_for_report(job));
    CHECK(resident_kib(rank_0) < before + kMostGrowthKiB);
    ::kill(rank_1, SIGCONT);  // joins during the flood
    job.wait_for("step 3/");
  }
  CHECK(loopback_ports(rank_0).empty());

  job.wait_for("step 30/");
  const long before = resident_kib(rank_0);
  const OtherUser other([&](const auto& report) {
    for (size_t i = 0; i < kConnections; ++i) {
      if (!is_refused(ports[0])) return;
    }
    report();
  });
  CHECK(other.wait_for_report(job));
  const auto newest = [&] { return checkpoints(w.run_directory("flooded")).back(); };
  for (const std::string so_far = newest(); newest() == so_far && !job.ranks().empty();) ::poll(nullptr, 0, 20);
  CHECK(resident_kib(rank_0) < before + kMostGrowthKiB);
  job.signal(SIGUSR1);
  CHECK(job.wait() == 75);
  CHECK(job.contains("state saved after step"));
  CHECK_FALSE(job.contains("not saved"));
}
