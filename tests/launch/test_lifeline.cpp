// What becomes of all ranks when one dies, fails or ends: each rank is a process.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "base/error.h"
#include "launch/channel.h"
#include "launch/early_stop.h"
#include "launch/placement.h"
#include "launch/ranks.h"
#include "support/skip.h"

using namespace fp;
using namespace fp_test;

namespace {

constexpr int kLifelineRanks = 8;
const LifelineOptions lifeline_options{.heartbeat_s = 0.1, .timeouts_s = {}, .connect_s = 30, .end = generous_end()};

// The hub waits a moment for the same failure of others, and then for the others to go first.
constexpr double kAtOnce = 4;

// In the middle of a run: what a rank is doing has been heard.
void be_busy(const RankContext& c) {
  c.record.enter_phase("step", 12);
  c.record.begin_wait({"data", CommKind::all_reduce, 345});
  c.record.end_wait();
  c.clock.sleep_s(0.5);
}

std::string lifeline_process(const Outcome& o, int rank) {
  return fmt::format("rank {} (host {}, pid {})", rank, host_name(), o.pids[rank]);
}

}  // namespace

TEST_CASE("ranks that close in any order end in silence") {
  for (const bool hub_first : {true, false}) {
    const Outcome o = run_ranks(kLifelineRanks, lifeline_options, [&](RankContext c) {
      c.clock.sleep_s(0.05 * (hub_first ? c.rank : kLifelineRanks - c.rank));
      c.lifeline.close();
    });
    INFO(o.text);
    CHECK(o.codes == all(kLifelineRanks, 0));
    CHECK(o.text == "");
  }
}

TEST_CASE("a rank that is killed ends all, and is named with what it did last") {
  const Outcome o = run_ranks(kLifelineRanks, lifeline_options, [](RankContext c) {
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

TEST_CASE("when rank 0 is killed one other rank says so") {
  const Outcome o = run_ranks(kLifelineRanks, lifeline_options, [](RankContext c) {
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

TEST_CASE("a rank that ends without a word counts as gone") {
  const Outcome o = run_ranks(3, lifeline_options, [](RankContext c) {
    if (c.rank == 2) return;
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == std::vector<int>{76, 76, 0});
  CHECK(o.count(lifeline_process(o, 2) + " is gone") == 1);
}

TEST_CASE("a rank that dies while rank 0 waits for it at the end is reported") {
  const Outcome o = run_ranks(4, lifeline_options, [](RankContext c) {
    if (c.rank == 3) {
      c.clock.sleep_s(0.5);
      ::raise(SIGKILL);
    }
    c.lifeline.close();
    c.clock.sleep_s(0.01);
  });
  INFO(o.text);
  CHECK(o.codes == std::vector<int>{76, 0, 0, 128 + SIGKILL});
  CHECK(o.count(lifeline_process(o, 3) + " is gone") == 1);
}

TEST_CASE("a failure of any rank ends all with its code, and is printed once") {
  for (const int failing : {0, 3}) {
    const Outcome o = run_ranks(kLifelineRanks, lifeline_options, [&](RankContext c) {
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
  const Outcome o = run_ranks(kLifelineRanks, lifeline_options, [](RankContext c) {
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

TEST_CASE("a broken communication is not blamed when the rank that broke it says why") {
  const auto peers_fail = [](bool cause_is_told) {
    return run_ranks(4, lifeline_options, [=](RankContext c) {
      c.mark_fault();
      if (c.rank != 2) c.lifeline.fail(76, "a peer failed", Blame::peer);
      c.clock.sleep_s(1);
      if (cause_is_told) c.lifeline.fail(4, "the loss is not finite");
      c.clock.sleep_for_ever();
    });
  };
  const Outcome told = peers_fail(true), untold = peers_fail(false);
  INFO(told.text);
  CHECK(told.codes == all(4, 4));
  CHECK(told.count("the loss is not finite") == 1);
  CHECK(told.count("a peer failed") == 0);
  INFO(untold.text);
  CHECK(untold.codes == all(4, 76));
  CHECK(untold.count("a peer failed") == 1);
}

TEST_CASE("a failure ends ranks whose main thread is stuck while it writes to the log") {
  LifelineOptions impatient = lifeline_options;
  impatient.end.say_s = impatient.end.flush_s = 0.1;
  const Outcome o = run_ranks(3, impatient, [](RankContext c) {
    if (c.rank == 2) {
      c.clock.sleep_s(0.3);
      c.lifeline.fail(3, "broken data");
    }
    ::flockfile(stderr);  // as a writer to a full pipe holds it
    ::flockfile(stdout);
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 3));
}

TEST_CASE("a rank that is told to stop early stops all, with 75 and one line") {
  for (const int signal : {SIGINT, SIGUSR1})
    for (const int told : {0, 3}) {
      CAPTURE(signal, told);
      const Outcome o = run_ranks(kLifelineRanks, lifeline_options, [&](RankContext c) {
        const EarlyStop early;
        be_busy(c);
        if (c.rank == told) {
          c.mark_fault();
          ::raise(signal);
        }
        c.clock.sleep_s(5);
        ::raise(SIGUSR1);  // as of a launcher that tells another node later
        c.clock.sleep_for_ever();
      });
      INFO(o.text);
      CHECK(o.codes == all(kLifelineRanks, 75));
      CHECK(o.text == "told to stop while there is nothing to save; the same command goes on\n");
      CHECK(o.after_fault_s < kAtOnce);
    }
}

TEST_CASE("a rank that is told to stop early does not wait for a rank 0 that does not answer") {
  const Outcome o = run_ranks(2, lifeline_options,
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

// Resets this process's connection to the other end of the lifeline, as `ss -K` does. Rank 0's: that to the rank which
// joined first.
void reset_connection() {
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.ss_family == AF_UNIX) continue;
    const sockaddr nowhere{AF_UNSPEC, {}};
    // Not by connect(): the thread sanitizer would take this for the place where another thread's descriptor is made.
    ::syscall(SYS_connect, fd, &nowhere, sizeof(nowhere));
    return;
  }
}

TEST_CASE("a connection that is reset is made again, and the run goes on") {
  for (const int resets : {0, 1, 2}) {
    CAPTURE(resets);
    const Outcome o = run_ranks(3, lifeline_options, [&](RankContext c) {
      be_busy(c);
      for (int i = 0; i < 3; ++i) {
        if (c.rank == resets) reset_connection();
        c.clock.sleep_s(2);
      }
      c.lifeline.close();
    });
    INFO(o.text);
    CHECK(o.codes == all(3, 0));
    CHECK(o.count("its connection to rank 0 had broken and was made again") == 3);
    CHECK_FALSE(o.says("error"));
  }
}

TEST_CASE("a failure is told over a connection that was just made again") {
  const Outcome o = run_ranks(3, lifeline_options, [](RankContext c) {
    be_busy(c);
    if (c.rank != 2) c.clock.sleep_for_ever();
    reset_connection();
    c.lifeline.fail(3, "broken data");
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 3));
  CHECK(o.count("broken data") == 1);
}

// From here on this process can make no connection, or can again.
[[maybe_unused]] void allow_connections(bool allowed) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = allowed ? limit.rlim_max : 3;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("a rank whose connection breaks for good is gone after some heartbeats") {
#if defined(__SANITIZE_ADDRESS__)
  FP_SKIP("the checks of undefined behaviour need descriptors, which this takes away");
#else
  const Outcome o = run_ranks(3, lifeline_options, [](RankContext c) {
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

TEST_CASE("a rank whose connection is broken goes on as long as steps do") {
#if defined(__SANITIZE_ADDRESS__)
  FP_SKIP("the checks of undefined behaviour need descriptors, which this takes away");
#else
  const Outcome o = run_ranks(3, lifeline_options, [](RankContext c) {
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
  CHECK(o.count("was made again") == 1);
  CHECK_FALSE(o.says("error"));
#endif
}

TEST_CASE("ranks that never join are missed") {
  LifelineOptions hasty = lifeline_options;
  hasty.connect_s = 0.5;
  const Outcome o = run_ranks(2, hasty, [](RankContext c) { c.clock.sleep_for_ever(); }, {.absent = 2});
  INFO(o.text);
  CHECK(o.codes == all(2, 76));
  CHECK(o.says("ranks 2-3 did not reach rank 0 on host " + host_name() + " within 0.5 s"));
}

TEST_CASE("strangers on the port are turned away") {
  const auto turned_away = [](const std::string& address, const PeerMessage& hello) {
    try {
      connect(address, hello, 600);
    } catch (const InfrastructureError&) {
      return true;
    }
    return false;
  };
  const Outcome o = run_ranks(3, lifeline_options, [&](RankContext c) {
    const std::string address = c.lifeline.address();
    if (c.rank == 0) {
      std::string wrong_token = address;
      char& digit = wrong_token[address.find(' ') + 1];
      digit = digit == '0' ? '1' : '0';
      const bool all_turned_away = turned_away(wrong_token, {"hello", {"1", "host", "1"}}) &&
                                   turned_away(address, {"hello", {"1", "host", "1"}}) &&  // a second rank 1
                                   turned_away(address, {"hello", {"3", "host", "1"}}) &&
                                   turned_away(address, {"end", {"0"}});
      if (!all_turned_away) c.lifeline.fail(9, "a stranger was let in");
    }
    c.lifeline.close();
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 0));
  CHECK(o.text == "");
}

TEST_CASE("nobody to reach is an error that says where it looked") {
  Listener listener;
  const std::string address = listener.address();
  CHECK_THROWS_WITH(connect("1 token - 127.0.0.1", {"hello", {}}, 600), Catch::Contains("tried port 1 of 127.0.0.1"));
  CHECK(address.size() > listener.token().size());
}

// A socket that listens on this port of one of the machine's loopback addresses; port 0: any.
Descriptor listen_on(const char* address, in_port_t& port) {
  Descriptor s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = port;
  ::inet_pton(AF_INET, address, &where.sin_addr);
  socklen_t size = sizeof(where);
  REQUIRE(::bind(s.get(), reinterpret_cast<const sockaddr*>(&where), size) == 0);
  REQUIRE(::listen(s.get(), 5) == 0);
  REQUIRE(::getsockname(s.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0);
  port = where.sin_port;
  return s;
}

TEST_CASE("an address that never answers does not keep the next from being tried") {
  in_port_t port = 0;
  const Descriptor mute = listen_on("127.0.0.2", port), rank_0 = listen_on("127.0.0.1", port);
  std::unique_ptr<PeerChannel> channel;
  std::thread answers([&] {
    channel = std::make_unique<PeerChannel>(Descriptor(::accept(rank_0.get(), nullptr, nullptr)));
    channel->send({"welcome", {"host", "1", "node"}});
  });
  const Greeting greeting =
      connect(fmt::format("{} token - 127.0.0.2 127.0.0.1", ntohs(port)), {"hello", {"1"}}, 36000);
  answers.join();
  REQUIRE(greeting.answers.size() == 1);
  CHECK(greeting.answers[0].verb == "welcome");
}

TEST_CASE("one rank alone has a lifeline too") {
  const Outcome good = run_ranks(1, lifeline_options, [](RankContext c) { c.lifeline.close(); });
  INFO(good.text);
  CHECK(good.codes == all(1, 0));
  const Outcome bad = run_ranks(1, lifeline_options, [](RankContext c) { c.lifeline.fail(3, "broken data"); });
  INFO(bad.text);
  CHECK(bad.codes == all(1, 3));
  CHECK(bad.says("broken data"));
}
