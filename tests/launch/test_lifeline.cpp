// Tests what happens to all ranks when one dies, fails or ends; each rank is a process.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "base/error.h"
#include "launch/connect.h"
#include "launch/early_stop.h"
#include "launch/placement.h"
#include "launch/ranks.h"
#include "launch/raw_connections.h"
#include "support/skip.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int kLifelineRanks = 8;
const LifelineOptions lifeline_options{.heartbeat_s = 0.1, .timeouts_s = {}, .connect_s = 30, .end = generous_end()};

// The hub waits for the same failure of other ranks, and then for the other ranks to end first.
constexpr double kAtOnce = 4;

// Simulates the middle of a run: the hub has received the rank's activity.
void be_busy(const RankContext& c) {
  c.record.enter_phase("step", 12);
  c.record.begin_wait({"data", CommKind::all_reduce, 345});
  c.record.end_wait();
  c.clock.sleep_s(0.5);
}

std::string lifeline_process(const RanksOutcome& o, int rank) {
  return fmt::format("rank {} (host {}, pid {})", rank, host_name(), o.pids[rank]);
}

}  // namespace

TEST_CASE("ranks that close in any order end without messages") {
  for (const bool hub_first : {true, false}) {
    const RanksOutcome o = run_ranks(kLifelineRanks, lifeline_options, [&](RankContext c) {
      c.clock.sleep_s(0.05 * (hub_first ? c.rank : kLifelineRanks - c.rank));
      c.lifeline.close();
    });
    INFO(o.text);
    CHECK(o.codes == all(kLifelineRanks, 0));
    CHECK(o.text == "");
  }
}

TEST_CASE("a killed rank ends all ranks and is logged with its last activity") {
  const RanksOutcome o = run_ranks(kLifelineRanks, lifeline_options, [](RankContext c) {
    be_busy(c);
    if (c.rank != 3) c.clock.sleep_for_ever();
    c.mark_fault();
    ::raise(SIGKILL);
  });
  auto expected = all(kLifelineRanks, 76);
  expected[3] = 128 + SIGKILL;
  INFO(o.text);
  CHECK(o.codes == expected);
  CHECK(o.count("is gone") == 1);
  CHECK(o.says("[rank 0] error: " + lifeline_process(o, 3) + " is gone"));
  CHECK(o.after_fault_s < kAtOnce);
  CHECK(o.says("step 12, phase step, working since all_reduce of data #345"));
}

TEST_CASE("when rank 0 is killed one other rank logs it") {
  const RanksOutcome o = run_ranks(kLifelineRanks, lifeline_options, [](RankContext c) {
    be_busy(c);
    if (c.rank != 0) c.clock.sleep_for_ever();
    c.mark_fault();
    ::raise(SIGKILL);
  });
  auto expected = all(kLifelineRanks, 76);
  expected[0] = 128 + SIGKILL;
  INFO(o.text);
  CHECK(o.codes == expected);
  CHECK(o.count("is gone") == 1);
  CHECK(o.says("[rank 1] error: " + lifeline_process(o, 0) + " is gone"));
  CHECK(o.after_fault_s < kAtOnce);
  CHECK(o.says("step 12, phase step, working since all_reduce of data #345"));
}

TEST_CASE("a rank that ends without closing counts as gone") {
  const RanksOutcome o = run_ranks(3, lifeline_options, [](RankContext c) {
    if (c.rank == 2) return;
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == std::vector<int>{76, 76, 0});
  CHECK(o.count(lifeline_process(o, 2) + " is gone") == 1);
}

TEST_CASE("a rank that dies while rank 0 waits for it at the end is reported") {
  const RanksOutcome o = run_ranks(4, lifeline_options, [](RankContext c) {
    if (c.rank == 3) {
      c.clock.sleep_s(0.5);
      ::raise(SIGKILL);
    }
    c.lifeline.close();
    c.clock.sleep_s(0.01);
  });
  INFO(o.text);
  CHECK(o.codes == std::vector<int>{76, 76, 76, 128 + SIGKILL});
  CHECK(o.count(lifeline_process(o, 3) + " is gone") == 1);
}

TEST_CASE("a failure of any rank ends all ranks with its code and is printed once") {
  for (const int failing : {0, 3}) {
    const RanksOutcome o = run_ranks(kLifelineRanks, lifeline_options, [&](RankContext c) {
      be_busy(c);
      if (c.rank != failing) c.clock.sleep_for_ever();
      c.mark_fault();
      c.lifeline.fail(3, "data.bin: line 1\nis wrong\tby \\ far");
    });
    INFO(o.text);
    CHECK(o.codes == all(kLifelineRanks, 3));
    CHECK(o.count("is wrong") == 1);
    CHECK(o.says(fmt::format("rank {} (host {}, step 12, phase step): data.bin: line 1\nis wrong\tby \\ far\n", failing,
                             host_name())));
    CHECK(o.count("is gone") == 0);
    CHECK(o.after_fault_s < kAtOnce);
  }
}

TEST_CASE("ranks with the same failure share one message") {
  const RanksOutcome o = run_ranks(kLifelineRanks, lifeline_options, [](RankContext c) {
    c.record.enter_phase("set-up", 0);
    if (c.rank == 5) c.clock.sleep_for_ever();
    c.mark_fault();
    c.lifeline.fail(2, "train.steps must be at least 1");
  });
  INFO(o.text);
  CHECK(o.codes == all(kLifelineRanks, 2));
  CHECK(o.count("train.steps") == 1);
  CHECK(o.says("ranks 0-4,6-7 (host " + host_name()));
  CHECK(o.after_fault_s < kAtOnce);
}

TEST_CASE("a broken communication is not reported when the rank that broke it reports why") {
  const auto peers_fail = [](bool cause_is_told) {
    return run_ranks(4, lifeline_options, [=](RankContext c) {
      c.mark_fault();
      if (c.rank != 2) c.lifeline.fail(76, "a peer failed", Blame::peer);
      c.clock.sleep_s(1);
      if (cause_is_told) c.lifeline.fail(4, "the loss is not finite");
      c.clock.sleep_for_ever();
    });
  };
  const RanksOutcome told = peers_fail(true), untold = peers_fail(false);
  INFO(told.text);
  CHECK(told.codes == all(4, 4));
  CHECK(told.count("the loss is not finite") == 1);
  CHECK(told.count("a peer failed") == 0);
  INFO(untold.text);
  CHECK(untold.codes == all(4, 76));
  CHECK(untold.count("a peer failed") == 1);
}

TEST_CASE("a rank that is gone is named although others have reported that their communication with it broke") {
  const RanksOutcome o = run_ranks(4, lifeline_options, [](RankContext c) {
    be_busy(c);
    if (c.rank == 1) c.lifeline.fail(76, "a peer failed", Blame::peer);
    c.clock.sleep_s(1);
    c.mark_fault();
    if (c.rank == 2) ::raise(SIGKILL);
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.says(lifeline_process(o, 2) + " is gone"));
}

TEST_CASE("a failure ends ranks whose main thread is stuck in a write to the log") {
  LifelineOptions impatient = lifeline_options;
  impatient.end.log_s = impatient.end.flush_s = 0.1;
  const RanksOutcome o = run_ranks(3, impatient, [](RankContext c) {
    if (c.rank == 2) {
      c.clock.sleep_s(0.3);
      c.lifeline.fail(3, "broken data");
    }
    ::flockfile(stderr);  // as a writer to a full pipe does
    ::flockfile(stdout);
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 3));
}

TEST_CASE("a rank that receives a stop request ends all ranks with code 75 and one line") {
  for (const int signal : {SIGINT, SIGUSR1})
    for (const int told : {0, 3}) {
      CAPTURE(signal, told);
      const RanksOutcome o = run_ranks(kLifelineRanks, lifeline_options, [&](RankContext c) {
        const EarlyStop early;
        be_busy(c);
        if (c.rank == told) {
          c.mark_fault();
          ::raise(signal);
        }
        c.clock.sleep_s(5);
        ::raise(SIGUSR1);  // as from a launcher that signals another node later
        c.clock.sleep_for_ever();
      });
      INFO(o.text);
      CHECK(o.codes == all(kLifelineRanks, 75));
      CHECK(o.text ==
            "stopped with nothing to save; unless a rank reported an error, the same command continues the run\n");
      CHECK(o.after_fault_s < kAtOnce);
    }
}

TEST_CASE("a rank that receives a stop request does not wait for a rank 0 that does not answer") {
  const RanksOutcome o = run_ranks(2, lifeline_options,
                                   [](RankContext c) {
                                     const EarlyStop early;
                                     if (c.rank == 0) ::raise(SIGSTOP);
                                     c.clock.sleep_s(0.5);
                                     c.mark_fault();
                                     ::raise(SIGTERM);
                                     c.clock.sleep_for_ever();
                                   },
                                   {.stopped = 0});
  INFO(o.text);
  CHECK(o.codes == std::vector<int>{-1, 75});
  CHECK(o.after_fault_s < 15);
}

// Returns the descriptor of this process's first lifeline connection; rank 0's leads to the rank that joined first.
int lifeline_descriptor() {
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.ss_family == AF_UNIX) continue;
    return fd;
  }
  throw std::runtime_error("this process has no connection of the lifeline");
}

// Resets this process's lifeline connection, as `ss -K` does. A plain system call: the thread sanitizer would report
// connect() and send() as uses of another thread's descriptor.
void reset_connection() {
  const sockaddr nowhere{AF_UNSPEC, {}};
  ::syscall(SYS_connect, lifeline_descriptor(), &nowhere, sizeof(nowhere));
}

// Sends a line that is not signed with the token, as an attacker between the two ends could.
void inject_line() { ::syscall(SYS_sendto, lifeline_descriptor(), "x\n", 2, MSG_NOSIGNAL, nullptr, 0); }

TEST_CASE("a reset connection is re-established and the run continues") {
  for (const int resets : {0, 1, 2}) {
    CAPTURE(resets);
    const RanksOutcome o = run_ranks(3, lifeline_options, [&](RankContext c) {
      be_busy(c);
      for (int i = 0; i < 3; ++i) {
        if (c.rank == resets) reset_connection();
        c.clock.sleep_s(2);
      }
      // Rank 0 listened in between, and does not any more.
      if (c.rank == 0 && !is_refused(MeetingPoint::from_text(c.lifeline.address()).port))
        c.lifeline.fail(9, "the port is open");
      c.lifeline.close();
    });
    INFO(o.text);
    CHECK(o.codes == all(3, 0));
    CHECK(o.count("its connection to rank 0 had broken and was re-established") == 3);
    CHECK_FALSE(o.says("error"));
  }
}

TEST_CASE("an injected line breaks the connection, which is re-established") {
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    const RanksOutcome o = run_ranks(3, lifeline_options, [&](RankContext c) {
      be_busy(c);
      if (c.rank == rank) inject_line();
      c.clock.sleep_s(4);
      c.lifeline.close();
    });
    INFO(o.text);
    CHECK(o.codes == all(3, 0));
    CHECK(o.count("its connection to rank 0 had broken and was re-established") == 1);
    CHECK_FALSE(o.says("error"));
  }
}

TEST_CASE("a failure is reported over a connection that was just re-established") {
  const RanksOutcome o = run_ranks(3, lifeline_options, [](RankContext c) {
    be_busy(c);
    if (c.rank != 2) c.clock.sleep_for_ever();
    reset_connection();
    c.lifeline.fail(3, "broken data");
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 3));
  CHECK(o.count("broken data") == 1);
}

// Prevents this process from opening connections, or allows it again.
[[maybe_unused]] void allow_connections(bool allowed) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = allowed ? limit.rlim_max : 3;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("a rank whose connection stays broken counts as gone after some heartbeats") {
#if defined(__SANITIZE_ADDRESS__)
  FP_SKIP("the checks of undefined behaviour need descriptors, which this takes away");
#else
  const RanksOutcome o = run_ranks(3, lifeline_options, [](RankContext c) {
    be_busy(c);
    if (c.rank == 2) {
      c.mark_fault();
      allow_connections(false);
      reset_connection();
    }
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 76));
  CHECK(o.count("is gone") == 1);
  CHECK(o.says("[rank 0] error: " + lifeline_process(o, 2) + " is gone"));
  CHECK(o.after_fault_s > (kComeBackBeats - 1) * lifeline_options.heartbeat_s);
  CHECK(o.after_fault_s < kComeBackBeats * lifeline_options.heartbeat_s + kAtOnce);
#endif
}

TEST_CASE("a rank without a connection survives as long as steps continue") {
#if defined(__SANITIZE_ADDRESS__)
  FP_SKIP("the checks of undefined behaviour need descriptors, which this takes away");
#else
  const RanksOutcome o = run_ranks(3, lifeline_options, [](RankContext c) {
    be_busy(c);
    if (c.rank == 2) {
      allow_connections(false);
      reset_connection();
    }
    for (int64_t step = 13; step < 13 + 10 * kComeBackBeats; ++step) {
      c.clock.sleep_s(3 * lifeline_options.heartbeat_s);
      c.record.enter_phase("step", step);
    }
    if (c.rank == 2) allow_connections(true);
    c.clock.sleep_s(5 * lifeline_options.heartbeat_s);
    c.lifeline.close();
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 0));
  CHECK(o.says(lifeline_process(o, 2) + " has been silent for"));
  CHECK(o.count("was re-established") == 1);
  CHECK_FALSE(o.says("error"));
#endif
}

TEST_CASE("while a rank is missing unauthenticated peers are kept for five seconds and it can reconnect") {
#if defined(__SANITIZE_ADDRESS__)
  FP_SKIP("the checks of undefined behaviour need descriptors, which this takes away");
#else
  const RanksOutcome o = run_ranks(3, lifeline_options, [](RankContext c) {
    be_busy(c);
    std::vector<FileDescriptor> peers;
    if (c.rank == 2) {
      allow_connections(false);
      reset_connection();
    }
    for (int64_t step = 13; step < 13 + 10 * kComeBackBeats; ++step) {
      c.clock.sleep_s(3 * lifeline_options.heartbeat_s);
      c.record.enter_phase("step", step);
      if (c.rank != 0 || peers.size() == 30) continue;
      const uint16_t port = MeetingPoint::from_text(c.lifeline.address()).port;
      while (peers.size() < 30) peers.push_back(connect_to(port));
    }
    for (const FileDescriptor& s : peers) {
      if (s.get() < 0 || !is_dropped(s)) c.lifeline.fail(9, "a peer was refused or is still connected");
    }
    if (c.rank == 2) allow_connections(true);
    c.clock.sleep_s(5 * lifeline_options.heartbeat_s);
    c.lifeline.close();
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 0));
  CHECK(o.count("was re-established") == 1);
  CHECK_FALSE(o.says("error"));
#endif
}

TEST_CASE("ranks that never join are reported") {
  LifelineOptions hasty = lifeline_options;
  hasty.connect_s = 0.5;
  const RanksOutcome o = run_ranks(2, hasty, [](RankContext c) { c.clock.sleep_for_ever(); }, {.absent = 2});
  INFO(o.text);
  CHECK(o.codes == all(2, 76));
  CHECK(o.says("ranks 2-3 did not reach rank 0 on host " + host_name() + " within 0.5 s"));
}

TEST_CASE("a lifeline works with a single rank") {
  const RanksOutcome good = run_ranks(1, lifeline_options, [](RankContext c) { c.lifeline.close(); });
  INFO(good.text);
  CHECK(good.codes == all(1, 0));
  const RanksOutcome bad = run_ranks(1, lifeline_options, [](RankContext c) { c.lifeline.fail(3, "broken data"); });
  INFO(bad.text);
  CHECK(bad.codes == all(1, 3));
  CHECK(bad.says("broken data"));
}
