// Tests how a rank connects to rank 0 although other programs may answer at its addresses, and which peers rank 0
// admits.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "launch/connect.h"
#include "launch/listener.h"
#include "launch/placement.h"
#include "launch/ranks.h"
#include "launch/raw_connections.h"

using namespace fp;
using namespace fp::test;

namespace {

const PeerMessage hello_of_1{"hello", {"1", "secret-host"}};
constexpr double kAnyTime = 600;  // longer than any test takes

// Waits for the next connection to one of the doors.
Listener::Visitor next_visitor(Listener& listener) {
  for (;;) {
    int error = 0;
    if (auto visitor = listener.accept(error)) return std::move(*visitor);
    fp::wait_readable(listener.fds(), 1);
  }
}

// Receives as rank 0 does: returns the first messages after authentication; empty if the peer closes.
std::vector<PeerMessage> receive_all(PeerChannel& channel) {
  std::vector<PeerMessage> messages;
  while (channel.receive(messages) == PeerChannel::State::open && messages.empty())
    fp::wait_readable({channel.fd()}, 1);
  return messages;
}

PeerChannel welcome_next(Listener& listener, const Token& token) {
  PeerChannel channel(next_visitor(listener).socket, LifelineEnd::hub, token);
  CHECK(receive_all(channel) == std::vector{hello_of_1});
  channel.send({"welcome", {"host", "1", "node"}});
  return channel;
}

// Returns the error of a rank that sends this hello.
std::string refusal(const MeetingPoint& where, const PeerMessage& hello) {
  try {
    connect(where, hello, kAnyTime, 1);
  } catch (const InfrastructureError& e) {
    return e.what();
  }
  return "admitted";
}

}  // namespace

TEST_CASE("failure to reach rank 0 names the addresses that were tried") {
  CHECK_THROWS_WITH(connect({1, Token(), {"127.0.0.1"}}, hello_of_1, kAnyTime, 1),
                    Catch::Contains("tried port 1 of 127.0.0.1") && !Catch::Contains("does not belong to this run"));
}

TEST_CASE("a meeting point survives a round trip through text") {
  const MeetingPoint point{4711, Token(), {"192.0.2.7", "2001:db8::7", "node17"}};
  const MeetingPoint read = MeetingPoint::from_text(point.text());
  CHECK(read.port == point.port);
  CHECK(read.token.key() == point.token.key());
  CHECK(read.addresses == point.addresses);
}

TEST_CASE("a rank connects by host name too") {
  Listener listener({"127.0.0.1"});
  const Token token;
  std::thread rank_0([&] { welcome_next(listener, token); });
  const Greeting greeting = connect({listener.port(), token, {"localhost"}}, hello_of_1, kAnyTime, 1);
  rank_0.join();
  CHECK(greeting.answers.at(0).verb == "welcome");
}

TEST_CASE("an unresponsive address does not delay the next one") {
  Listener both({"127.0.0.2", "127.0.0.1"});  // 127.0.0.2 accepts connections and sends nothing
  const Token token;
  std::vector<Listener::Visitor> mute;
  std::thread rank_0([&] {
    for (;;) {
      Listener::Visitor v = next_visitor(both);
      if (v.door == 0) {
        mute.push_back(std::move(v));
        continue;
      }
      PeerChannel channel(std::move(v.socket), LifelineEnd::hub, token);
      receive_all(channel);
      channel.send({"welcome", {"host", "1", "node"}});
      return;
    }
  });
  const Greeting greeting = connect({both.port(), token, {"127.0.0.2", "127.0.0.1"}}, hello_of_1, kAnyTime, 1);
  rank_0.join();
  REQUIRE(greeting.answers.size() == 1);
  CHECK(greeting.answers[0].verb == "welcome");
}

TEST_CASE("an impostor of rank 0 is neither obeyed nor sent anything but a challenge") {
  Listener both({"127.0.0.2", "127.0.0.1"});
  const Token token;
  const std::string zeros(64, '0');
  const std::string lie =
      GENERATE_COPY(std::string("welcome\thost\t1\tnode\nend\t0\n"), std::string("end\t0\n"),
                    "proof\t" + zeros + "\t" + zeros + "\nend\t0\n", std::string(100000, 'x'), std::string(""));
  std::string sent_to_impostor;
  std::thread ranks_0([&] {
    // The impostor has finished before the real rank 0 sends anything.
    Listener::Visitor first = next_visitor(both), second = next_visitor(both);
    if (first.door != 0) std::swap(first, second);
    REQUIRE(first.door == 0);
    send_raw(first.socket, lie);
    sent_to_impostor = receive_raw(first.socket, 1);
    if (!lie.empty()) sent_to_impostor += receive_raw(first.socket, 1000);  // until the rank hangs up
    first.socket = FileDescriptor();
    PeerChannel channel(std::move(second.socket), LifelineEnd::hub, token);
    CHECK(receive_all(channel) == std::vector{hello_of_1});
    channel.send({"welcome", {"host", "1", "node"}});
  });
  const Greeting greeting = connect({both.port(), token, {"127.0.0.2", "127.0.0.1"}}, hello_of_1, kAnyTime, 1);
  ranks_0.join();
  CHECK(greeting.answers.at(0).verb == "welcome");
  CHECK(sent_to_impostor.starts_with("challenge\t"));
  CHECK(sent_to_impostor.size() == std::string("challenge\t\n").size() + 64);
  CHECK(sent_to_impostor.find(token.text()) == std::string::npos);
}

TEST_CASE("an error names the impostors if only they answer") {
  Listener listener({"127.0.0.1"});
  const Token token, other;
  size_t heard = 0;
  std::thread impostor([&] {
    PeerChannel channel(next_visitor(listener).socket, LifelineEnd::hub, other);
    heard = receive_all(channel).size();
  });
  CHECK_THROWS_WITH(connect({listener.port(), token, {"127.0.0.1"}}, hello_of_1, kAnyTime, 1),
                    Catch::Contains("the peer at 127.0.0.1 does not belong to this run"));
  impostor.join();
  CHECK(heard == 0);
}

TEST_CASE("a connection that is dropped before the welcome is retried") {
  Listener listener({"127.0.0.1"});
  const Token token;
  std::thread rank_0([&] {
    for (int i = 0; i < 2; ++i) next_visitor(listener);  // dropped, as in a flood
    {
      PeerChannel proven(next_visitor(listener).socket, LifelineEnd::hub, token);
      CHECK(receive_all(proven) == std::vector{hello_of_1});
    }
    welcome_next(listener, token);
  });
  const Greeting greeting = connect({listener.port(), token, {"127.0.0.1"}}, hello_of_1, kAnyTime, 1);
  rank_0.join();
  CHECK(greeting.answers.at(0).verb == "welcome");
}

TEST_CASE("delays differ by rank and are the same in every run") {
  std::set<double> drawn;
  for (int rank = 1; rank < 200; ++rank) drawn.insert(jitter(rank, 0, 0));
  CHECK(drawn.size() > 190);
  CHECK(*drawn.begin() < 0.1);
  CHECK(*drawn.rbegin() > 0.9);
  CHECK(jitter(7, 1, 2) == jitter(7, 1, 2));
  CHECK(jitter(7, 1, 2) != jitter(7, 1, 3));
}

TEST_CASE("a peer that knows the token but is not a missing rank is refused with the reason") {
  const RanksOutcome o =
      run_ranks(3, {.heartbeat_s = 0.1, .connect_s = 30, .end = generous_end()},
                [](RankContext c) {
                  if (c.rank != 0) c.clock.sleep_for_ever();
                  const MeetingPoint here = MeetingPoint::from_text(c.lifeline.address());
                  MeetingPoint other = here;
                  other.token = Token();
                  std::string wrong;
                  const auto expect = [&](const MeetingPoint& where, const PeerMessage& hello, const char* needle) {
                    const std::string said = refusal(where, hello);
                    if (said.find(needle) == std::string::npos) wrong += said + "; not " + needle + "\n";
                  };
                  expect(other, {"hello", {"3", "host", "1"}}, "does not belong to this run");
                  expect(here, {"hello", {"1", "host", "1"}}, "has joined already");  // a second rank 1
                  expect(here, {"again", {"1", "host", "1"}}, "has joined already");
                  expect(here, {"again", {"3", "host", "1"}}, "rank 3 has not joined yet");
                  expect(here, {"hello", {"0", "host", "1"}}, "there are ranks 1 to 3 beside rank 0, not 0");
                  expect(here, {"hello", {"4", "host", "1"}}, "not 4");
                  expect(here, {"end", {"0"}}, "neither hello nor again");
                  const FileDescriptor peer = connect_to(here.port);
                  send_raw(peer, "end\t0\n");
                  if (!receive_raw(peer, 1).empty()) wrong += "an unauthenticated peer was answered\n";
                  c.lifeline.fail(5, wrong.empty() ? "all were refused" : wrong);
                },
                {.absent = 1});
  INFO(o.text);
  CHECK(o.codes == all(3, 5));
  CHECK(o.count("all were refused") == 1);
}

TEST_CASE("once all ranks have joined rank 0 refuses new connections and drops waiting ones") {
  for (const bool over_interfaces : {false, true}) {
    CAPTURE(over_interfaces);
    const RanksOutcome o = run_ranks(3, {.heartbeat_s = 0.1, .connect_s = 30, .end = generous_end()},
                                     [&](RankContext c) {
                                       if (c.rank == 0) {
                                         const MeetingPoint here = MeetingPoint::from_text(c.lifeline.address());
                                         for (const std::string& address : here.addresses) {
                                           if (address == host_name())
                                             continue;  // the same as one of the other addresses
                                           MeetingPoint one = here;
                                           one.addresses = {address};
                                           if (refusal(one, {"hello", {"1"}}).find("cannot reach") == std::string::npos)
                                             c.lifeline.fail(9, address + " is open");
                                         }
                                       }
                                       c.clock.sleep_s(1);
                                       c.lifeline.close();
                                     },
                                     {.over_interfaces = over_interfaces});
    INFO(o.text);
    CHECK(o.codes == all(3, 0));
    CHECK(o.text == "");
  }
}

TEST_CASE("a rank whose welcome was lost may say hello again") {
  const RanksOutcome o = run_ranks(
      2, {.heartbeat_s = 0.1, .connect_s = 30, .end = generous_end()},
      [](RankContext c) {
        if (c.rank != 1) c.clock.sleep_for_ever();
        const MeetingPoint rank_0 = MeetingPoint::from_text(c.address);  // rank 3 is still missing there
        const PeerMessage hello_of_2{"hello", {"2", "elsewhere", "77", "node"}};
        const Greeting lost = connect(rank_0, hello_of_2, kAnyTime, 2), kept = connect(rank_0, hello_of_2, kAnyTime, 2);
        kept.channel->send({"fail", {"5", "self", "heard again"}});
        c.clock.sleep_for_ever();
      },
      {.absent = 2});
  INFO(o.text);
  CHECK(o.codes == all(2, 5));
  CHECK(o.count("heard again") == 1);
}
