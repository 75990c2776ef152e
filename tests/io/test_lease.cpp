// Tests of leases on folders and their takeover, with simulated hosts, clocks and waits.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>

#include "io/filesystem.h"
#include "io/lease.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using fp::Lease;
using fp::LeaseHolder;

namespace {

using Patience = Lease::Patience;

const std::string kNoContainer = "pid:[4026531836]";

// A simulated machine on which only waits take time.
class SimulatedMachine : public fp::LeaseSystem {
 public:
  LeaseHolder me{"", "node1", "boot1", kNoContainer, 100, 5000, ""};
  bool others_run = true;
  std::optional<bool> job;
  Time began{0}, ahead{0};  // the file system's clock is their sum
  std::function<void()> at_wait;
  int64_t waited_ms = 0;

  LeaseHolder self() override {
    LeaseHolder h = me;
    h.nonce = fmt::format("{:032x}", ++count_);
    return h;
  }
  bool runs(const LeaseHolder&) override { return others_run; }
  std::optional<bool> job_runs(const std::string&) override { return job; }
  Time now(const fs::path&) override { return began + ahead; }
  // The renewing thread waits until it is stopped: tests renew themselves.
  void wait(std::chrono::milliseconds time, const std::stop_token& stop) override {
    if (stop.stop_possible()) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      wake.wait(lock, stop, [] { return false; });
      return;
    }
    waited_ms += time.count();
    ahead += time;
    if (at_wait) at_wait();
  }

 private:
  int count_ = 0;
};

struct LeaseRig {
  fp::test::TemporaryFolder folder;
  fs::path file = folder / "run.lease";
  SimulatedMachine machine;

  // Makes `h` the holder, with its last renewal `ago` seconds ago by the simulated clock.
  LeaseHolder held_by(LeaseHolder h, int64_t ago) {
    h.nonce = "0123";
    return put(to_text(h), ago), h;
  }
  void put(const std::string& content, int64_t ago) {
    std::ofstream(file) << content;
    machine.began = machine.LeaseSystem::now(file);
    machine.ahead = std::chrono::seconds(ago);
  }
  void renew() const { fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1)); }
  std::string refusal(Patience patience = Patience::wait) {
    try {
      const Lease lease(file, patience, machine);
    } catch (const fp::DataError& e) {
      CHECK(lease_holder_from(fp::read_file(file)).nonce == "0123");
      CHECK(machine.waited_ms < Lease::kMissed * Lease::kRenewEvery.count() * 1000);
      return e.what();
    }
    return "taken";
  }
};

const LeaseHolder kElsewhere{"", "node2", "boot2", kNoContainer, 200, 7000, ""};

}  // namespace

TEST_CASE("a lease has one holder and is released") {
  LeaseRig rig;
  {
    const Lease lease(rig.file);
    CHECK_NOTHROW(lease.require());
    try {
      const Lease second(rig.file);
      FAIL("held twice");
    } catch (const fp::DataError& e) {
      CHECK_THAT(e.what(), Catch::Contains(rig.folder.path.string() + ": another run is using this folder (process " +
                                           std::to_string(::getpid())));
    }
  }
  CHECK(fs::is_empty(rig.folder.path));
  CHECK_NOTHROW(Lease(rig.file));
}

TEST_CASE("the lease of a process killed on this machine is taken over at once") {
  LeaseRig rig;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const Lease lease(rig.file);
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  CHECK_THROWS_AS(Lease(rig.file, Patience::none), fp::DataError);
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  {
    const Lease lease(rig.file, Patience::none);  // the child is a zombie
    CHECK_NOTHROW(lease.require());
  }
  ::waitpid(child, nullptr, 0);
  CHECK(fs::is_empty(rig.folder.path));
}

TEST_CASE("a process with the same id but a later start time is not the holder") {
  LeaseRig rig;
  LeaseHolder h = fp::real_lease_system().self();
  CHECK(fp::real_lease_system().runs(h));
  ++h.start;
  CHECK_FALSE(fp::real_lease_system().runs(h));
}

TEST_CASE("the holder of a lease survives a round trip through text") {
  const LeaseHolder h{"0a1b", "node 3", "b-1", "pid:[1]", 12, 345, "77"};
  CHECK(fp::lease_holder_from(to_text(h)) == h);
  CHECK(fp::lease_holder_from("").nonce.empty());
}

TEST_CASE("a holder on another host that renews its lease keeps it") {
  LeaseRig rig;
  rig.held_by(kElsewhere, 100);
  rig.machine.at_wait = [&] { rig.renew(); };
  CHECK_THAT(rig.refusal(), Catch::Contains("another run is using this folder (process 200 on node2)"));
  CHECK(rig.machine.waited_ms > 0);
  CHECK_THAT(rig.refusal(Patience::none), Catch::Contains("another run is using this folder"));
}

TEST_CASE("a lease that is not renewed for five renewals is taken over, not before") {
  LeaseRig rig;
  rig.held_by(kElsewhere, 0);
  {
    const Lease lease(rig.file, Patience::wait, rig.machine);
    CHECK_NOTHROW(lease.require());
    CHECK(rig.machine.waited_ms >= 150'000);
    CHECK(rig.machine.waited_ms <= 156'000);
  }
  CHECK(fs::is_empty(rig.folder.path));
  rig.held_by(kElsewhere, 151);
  rig.machine.waited_ms = 0;
  CHECK_NOTHROW(Lease(rig.file, Patience::none, rig.machine));
  CHECK(rig.machine.waited_ms <= 1000);
}

TEST_CASE("a rebooted machine holds no lease but a container of the same name may run on another machine") {
  LeaseRig rig;
  LeaseHolder before = kElsewhere;
  before.host = rig.machine.me.host;
  rig.held_by(before, 0);
  CHECK(rig.refusal(Patience::none) == "taken");
  LeaseHolder container = before;
  container.pid_namespace = "pid:[4026532000]";
  rig.held_by(container, 0);
  CHECK_THAT(rig.refusal(Patience::none), Catch::Contains("another run"));
}

TEST_CASE("process ids are not compared across containers of this machine") {
  LeaseRig rig;
  rig.machine.others_run = false;
  LeaseHolder h = rig.machine.me;
  h.pid_namespace = "pid:[4026532000]";
  rig.held_by(h, 0);
  CHECK_THAT(rig.refusal(Patience::none), Catch::Contains("another run"));
  h.pid_namespace = kNoContainer;
  rig.held_by(h, 0);
  CHECK(rig.refusal(Patience::none) == "taken");
}

TEST_CASE("the lease of a running Slurm job is not taken over however old its renewal is") {
  LeaseRig rig;
  LeaseHolder h = kElsewhere;
  h.job = "77";
  rig.held_by(h, 1000);
  rig.machine.job = true;
  CHECK_THAT(rig.refusal(), Catch::Contains("process 200 on node2, Slurm job 77"));
  for (const std::optional<bool> answer : {std::optional(false), std::optional<bool>()}) {
    rig.held_by(h, 1000);
    rig.machine.job = answer;
    CHECK(rig.refusal() == "taken");
  }
  // A requeued job runs, but the holder was one of its earlier processes.
  rig.held_by(h, 1000);
  rig.machine.job = true;
  rig.machine.me.job = "77";
  CHECK(rig.refusal() == "taken");
}

TEST_CASE("a lock that another process holds on the lease is respected") {
  LeaseRig rig;
  rig.held_by(kElsewhere, 0);
  const int fd = ::open(rig.file.c_str(), O_RDWR);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  REQUIRE(::fcntl(fd, F_OFD_SETLK, &lock) == 0);
  CHECK_THAT(rig.refusal(), Catch::Contains("another run is using this folder"));
  CHECK(rig.machine.waited_ms == 0);
  rig.machine.ahead = std::chrono::seconds(1000);
  CHECK_THROWS_AS(Lease(rig.file, Patience::wait, rig.machine), fp::InfrastructureError);
  ::close(fd);
  CHECK(rig.refusal() == "taken");
}

TEST_CASE("a lease whose holder has ended but whose lock remains is an error after some seconds") {
  LeaseRig rig;
  rig.held_by(rig.machine.me, 0);
  rig.machine.others_run = false;
  const int fd = ::open(rig.file.c_str(), O_RDWR);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  REQUIRE(::fcntl(fd, F_OFD_SETLK, &lock) == 0);
  for (const Patience patience : {Patience::wait, Patience::none}) {
    rig.machine.waited_ms = 0;
    CHECK_THROWS_WITH(Lease(rig.file, patience, rig.machine), Catch::Contains("has ended, but its lock remains"));
    CHECK(rig.machine.waited_ms < 10000);
  }
  ::close(fd);
  CHECK(rig.refusal() == "taken");
}

TEST_CASE("a lease without holder information is taken over when it is old") {
  LeaseRig rig;
  rig.put("nonce", 149);
  CHECK_THROWS_AS(Lease(rig.file, Patience::none, rig.machine), fp::DataError);
  rig.machine.ahead = std::chrono::seconds(151);
  CHECK_NOTHROW(Lease(rig.file, Patience::none, rig.machine));
}

TEST_CASE("a process that lost its lease gets an error and leaves the new holder's lease alone") {
  LeaseRig rig;
  {
    Lease lease(rig.file, Patience::wait, rig.machine);
    const auto old = fs::last_write_time(rig.file) - std::chrono::hours(1);
    fs::last_write_time(rig.file, old);
    lease.renew();
    CHECK(fs::last_write_time(rig.file) > old + std::chrono::minutes(1));
    std::ofstream(rig.folder / "other") << to_text(LeaseHolder{"99", "node2", "", "", 7, 0, ""});
    fs::rename(rig.folder / "other", rig.file);
    lease.renew();
    try {
      lease.require();
      FAIL("still held");
    } catch (const fp::LeaseLost& e) {
      CHECK(e.code() == fp::ExitCode::infrastructure);
    }
  }
  CHECK(fp::lease_holder_from(fp::read_file(rig.file)).nonce == "99");
  fs::remove(rig.file);
  const Lease again(rig.file, Patience::wait, rig.machine);
  fs::remove(rig.file);
  CHECK_THROWS_AS(again.require(), fp::LeaseLost);
}

TEST_CASE("old files of killed acquisition attempts are removed") {
  LeaseRig rig;
  const fs::path old = rig.file.string() + "." + std::string(32, 'a'),
                 young = rig.file.string() + "." + std::string(32, 'b'), not_ours = rig.file.string() + ".txt";
  for (const fs::path& path : {old, young, not_ours}) std::ofstream(path) << "x";
  for (const fs::path& path : {old, not_ours})
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  const Lease lease(rig.file, Patience::wait, rig.machine);
  CHECK_FALSE(fs::exists(old));
  CHECK(fs::exists(young));
  CHECK(fs::exists(not_ours));
}
