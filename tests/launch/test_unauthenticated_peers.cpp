// Tests of attacks from the network on rank 0's port.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "base/error.h"
#include "launch/descriptors.h"
#include "launch/raw_connections.h"
#include "launch/unauthenticated_peers.h"
#include "support/skip.h"

using namespace fp;
using namespace fp::test;

namespace {

// A clock that only the test advances.
class HandClock final : public MonotonicClock {
 public:
  Time now() override { return now_; }
  std::vector<int> wait_readable(const std::vector<int>& fds, Time) override { return fp::wait_readable(fds, 0); }
  std::thread start(std::function<void()> body) override { return std::thread(std::move(body)); }
  void join(std::thread& thread) override { thread.join(); }
  void pass_s(double seconds) {
    now_ += std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  Time now_{std::chrono::hours(1)};
};

// Rank 0's listener and its unauthenticated peers.
struct Door {
  HandClock clock;
  Token token;
  Listener listener{{"127.0.0.1"}};
  UnauthenticatedPeers peers{clock, token};
  size_t admitted = 0;

  FileDescriptor new_peer() const { return connect_to(listener.port()); }
  void serve() {
    for (const UnauthenticatedPeers::Newcomer& n : peers.serve(listener)) admitted += n.hello.verb == "hello" ? 1 : 0;
    CHECK(peers.count() <= UnauthenticatedPeers::kMost);
    CHECK(peers.held_bytes() <= UnauthenticatedPeers::kMost * PeerChannel::kMostUnproven);
  }
  // Serves until `done`, so that everything in flight arrives.
  void serve_until(const std::function<bool()>& done, double step_s = 0) {
    while (!done()) {
      serve();
      clock.pass_s(step_s);
      fp::wait_readable(peers.fds(listener), 0.001);
    }
  }
  bool listens() const {
    const std::vector<int> fds = peers.fds(listener);
    return std::find(fds.begin(), fds.end(), listener.fds().at(0)) != fds.end();
  }
  // Connects as a rank until it is admitted, however long the other peers delay it.
  void admit_rank() {
    std::optional<PeerChannel> rank;
    std::vector<PeerMessage> messages;
    const size_t before = admitted;
    const auto got_in = [&] {
      if (rank && rank->receive(messages) != PeerChannel::State::open) rank.reset();
      if (!rank) rank.emplace(new_peer(), LifelineEnd::spoke, token).send({"hello", {"1"}});
      return admitted > before;
    };
    serve_until(got_in, 0.01);
  }
};

ptrdiff_t dropped(const std::deque<FileDescriptor>& connections) {
  return std::count_if(connections.begin(), connections.end(), is_dropped);
}

}  // namespace

TEST_CASE("64 of 1,500 idle connections are kept and a rank is admitted beside them") {
  constexpr size_t kFlood = 1500;
  if (allow_all_descriptors() < 2000) FP_SKIP("1,500 connections take more descriptors than this process may have");
  if (listen_backlog() < 2000) FP_SKIP("net.core.somaxconn is too small for 1,500 connections");
  Door d;
  std::deque<FileDescriptor> flood;
  while (flood.size() < kFlood) {
    flood.push_back(d.new_peer());
    if (flood.size() % 50 == 0) d.serve();
  }
  // No peer has had its grace period yet, so the others wait in the system's queue and rank 0 is idle.
  d.serve_until([&] { return !d.listens(); });
  CHECK(d.peers.count() == UnauthenticatedPeers::kMost);
  CHECK(d.peers.due() <= d.clock.after(UnauthenticatedPeers::kGrace_s));
  d.admit_rank();
  d.serve_until([&] { return dropped(flood) >= static_cast<ptrdiff_t>(kFlood - UnauthenticatedPeers::kMost); },
                UnauthenticatedPeers::kGrace_s);
  d.serve_until([&] { return dropped(flood) == static_cast<ptrdiff_t>(kFlood); }, 1);
  CHECK(d.peers.count() == 0);
  CHECK(d.listens());
}

TEST_CASE("a thousand ranks that connect at once are all admitted") {
  constexpr size_t kRanks = 1000;
  if (allow_all_descriptors() < 2500) FP_SKIP("1,000 connections take more descriptors than this process may have");
  if (listen_backlog() < 2000) FP_SKIP("net.core.somaxconn is too small for 1,000 connections");
  Door d;
  std::deque<PeerChannel> ranks;
  for (size_t i = 0; i < kRanks; ++i) {
    ranks.emplace_back(d.new_peer(), LifelineEnd::spoke, d.token);
    ranks.back().send({"hello", {"1"}});
  }
  std::vector<UnauthenticatedPeers::Newcomer> in;
  while (in.size() < kRanks) {
    for (UnauthenticatedPeers::Newcomer& n : d.peers.serve(d.listener)) in.push_back(std::move(n));
    std::vector<PeerMessage> messages;
    for (PeerChannel& r : ranks) REQUIRE(r.receive(messages) == PeerChannel::State::open);  // none is displaced
  }
  CHECK(d.peers.count() == 0);
}

TEST_CASE("an unauthenticated peer is dropped after five seconds whatever it sends") {
  Door d;
  const FileDescriptor idle = d.new_peer(), slow = d.new_peer();
  d.serve_until([&] { return d.peers.count() == 2; });
  const auto end = d.clock.after(UnauthenticatedPeers::kPatience_s);
  CHECK(d.peers.due() == end);
  for (int i = 0; i < 49; ++i) {
    send_raw(slow, "c");  // a challenge, a byte at a time
    d.clock.pass_s(0.1);
    d.serve();
  }
  CHECK(d.peers.count() == 2);
  d.clock.pass_s(0.1);
  d.serve_until([&] { return is_dropped(idle) && is_dropped(slow); });
  CHECK(d.peers.count() == 0);
}

TEST_CASE("a peer that does not authenticate within 4 KiB is dropped") {
  Door d;
  const FileDescriptor talker = d.new_peer();
  d.serve_until([&] { return d.peers.count() == 1; });
  for (int i = 0; i < 4; ++i) {  // 4,000 bytes are accepted
    send_raw(talker, std::string(1000, 'x'));
    d.serve();
  }
  CHECK(d.peers.count() == 1);
  send_raw(talker, std::string(1000000, 'x'));
  d.serve_until([&] { return is_dropped(talker); });
  CHECK(d.peers.count() == 0);
  const FileDescriptor rude = d.new_peer();
  send_raw(rude, std::string(1000000, 'x'));
  d.serve_until([&] { return is_dropped(rude); });
}

TEST_CASE("garbage and port scans leave no state behind") {
  Door d;
  std::mt19937 random(5);
  std::deque<FileDescriptor> talkers;
  for (int i = 0; i < 40; ++i) {
    std::string noise(1 + random() % 300, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    talkers.push_back(d.new_peer());
    send_raw(talkers.back(), noise + "\n");
  }
  for (const char* line : {"\n", "challenge\n", "challenge\tshort\n", "hello\t1\thost\t1\n", "GET / HTTP/1.1\r\n",
                           "proof\t00\n", "end\t0\n"}) {
    talkers.push_back(d.new_peer());
    send_raw(talkers.back(), line);
  }
  d.serve_until([&] { return dropped(talkers) == static_cast<ptrdiff_t>(talkers.size()); });
  for (int i = 0; i < 300; ++i) {
    d.new_peer();
    d.serve();
  }
  d.admit_rank();
  d.serve_until([&] { return d.peers.count() == 0; });
}

TEST_CASE("unauthenticated peers learn nothing from rank 0 but its answer to a challenge") {
  Door d;
  const FileDescriptor mute = d.new_peer(), asks = d.new_peer();
  send_raw(asks, "challenge\t" + std::string(64, 'a') + "\n");
  std::string answer;
  d.serve_until([&] { return answer += receive_raw(asks), answer.ends_with("\n"); });
  CHECK(answer.starts_with("proof\t"));
  CHECK(answer.size() == std::string("proof\t\t\n").size() + 128);
  CHECK(receive_raw(mute).empty());
  // This proof is not that of a rank.
  send_raw(asks, "proof\t" + std::string(64, '0') + "\n");
  d.serve_until([&] { return is_dropped(asks); });
  CHECK(d.admitted == 0);
}

// Prevents this process from opening any more descriptors.
[[maybe_unused]] rlimit use_up_descriptors() {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int lowest_free = ::dup(0);
  REQUIRE(lowest_free >= 0);
  const rlimit now{static_cast<rlim_t>(lowest_free), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  ::close(lowest_free);
  return before;
}

TEST_CASE("without a free descriptor the oldest unauthenticated peer is dropped and rank 0 does not spin") {
#if defined(__SANITIZE_ADDRESS__)
  FP_SKIP("the checks of undefined behaviour need descriptors, which this takes away");
#else
  Door d;
  const FileDescriptor alone = d.new_peer();
  rlimit before = use_up_descriptors();
  d.serve_until([&] { return !d.listens(); });  // there is no peer to drop
  CHECK(d.peers.count() == 0);
  const auto next = d.peers.due();
  CHECK(next > d.clock.now());
  ::setrlimit(RLIMIT_NOFILE, &before);
  d.clock.pass_s(1);
  d.serve_until([&] { return d.peers.count() == 1; });

  const FileDescriptor second = d.new_peer();
  before = use_up_descriptors();
  d.serve_until([&] { return !d.listens(); });  // the only peer is still in its grace period
  CHECK_FALSE(is_dropped(alone));
  d.clock.pass_s(UnauthenticatedPeers::kGrace_s);
  d.serve_until([&] { return is_dropped(alone); });
  CHECK(d.peers.count() == 1);
  send_raw(second, "?\n");  // this one was accepted
  d.serve_until([&] { return is_dropped(second); });
  ::setrlimit(RLIMIT_NOFILE, &before);
#endif
}

TEST_CASE("a closed listener refuses connections, keeps its port and can be reopened") {
  Listener listener({"127.0.0.1", "127.0.0.2"});
  CHECK(listener.addresses() == std::vector<std::string>{"127.0.0.1", "127.0.0.2"});
  const uint16_t port = listener.port();
  const FileDescriptor first = connect_to(port);
  int error = 0;
  std::optional<Listener::Visitor> visitor;
  while (!(visitor = listener.accept(error))) REQUIRE(error == 0);
  listener.keep(visitor->door);
  const FileDescriptor waiting = connect_to(port);
  listener.close();
  CHECK(listener.fds().empty());
  CHECK(listener.addresses() == std::vector<std::string>{"127.0.0.1"});  // no rank had connected to the other address
  CHECK(is_refused(port));
  CHECK(receive_raw(waiting, 1).empty());
  CHECK_FALSE(listener.accept(error));

  const FileDescriptor squatter(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(squatter.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  CHECK(::bind(squatter.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0);

  REQUIRE(listener.open());
  const FileDescriptor again = connect_to(port);
  std::optional<Listener::Visitor> second;
  while (!(second = listener.accept(error))) REQUIRE(error == 0);
  send_raw(first, "one");
  send_raw(again, "two");
  CHECK(receive_raw(visitor->socket, 3) == "one");
  CHECK(receive_raw(second->socket, 3) == "two");
}

TEST_CASE("a listener leaves out addresses of other hosts and fails if none is left") {
  const Listener some({"203.0.113.7", "127.0.0.1"});
  CHECK(some.addresses() == std::vector<std::string>{"127.0.0.1"});
  CHECK_THROWS_WITH(Listener({"203.0.113.7"}), Catch::Contains("cannot listen for the other ranks on 203.0.113.7"));
}
