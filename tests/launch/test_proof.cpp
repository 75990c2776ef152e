// Tests of the authentication of a connection against an attacker without the token who sees and may alter every byte.
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "launch/channel.h"
#include "launch/raw_connections.h"

using namespace fp;
using namespace fp::test;

namespace {

using State = PeerChannel::State;

// A hub and a spoke with a man in the middle, who may forward, alter or drop anything.
struct Wire {
  explicit Wire(const Token& of_hub, const Token& of_spoke) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    hub = std::make_unique<PeerChannel>(FileDescriptor(ends[0]), LifelineEnd::hub, of_hub);
    to_hub = FileDescriptor(ends[1]);
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    spoke = std::make_unique<PeerChannel>(FileDescriptor(ends[0]), LifelineEnd::spoke, of_spoke);
    to_spoke = FileDescriptor(ends[1]);
  }
  explicit Wire(const Token& token) : Wire(token, token) {}

  State receive_hub() { return hub->receive(at_hub); }
  State receive_spoke() { return spoke->receive(at_spoke); }
  // Forwards everything that is sent, until nothing more is.
  void relay() {
    for (;;) {
      const std::string up = receive_raw(to_spoke), down = receive_raw(to_hub);
      if (up.empty() && down.empty()) return;
      sent_by_spoke += up;
      sent_by_hub += down;
      send_raw(to_hub, up);
      send_raw(to_spoke, down);
      hub_state = receive_hub();
      spoke_state = receive_spoke();
    }
  }

  FileDescriptor to_hub, to_spoke;  // the man in the middle's ends
  std::unique_ptr<PeerChannel> hub, spoke;
  std::string sent_by_hub, sent_by_spoke;
  State hub_state = State::open, spoke_state = State::open;
  std::vector<PeerMessage> at_hub, at_spoke;
};

const PeerMessage hello_of_3{"hello", {"3", "host-of-3", "77"}};
const PeerMessage end_0{"end", {"0"}};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(text.substr(at, end + 1 - at));
  return lines;
}

// Returns a hub's answer to a challenge: its nonce and its proof.
PeerMessage answer_of_hub(const Token& token, const std::string& nonce) {
  Handshake hub(LifelineEnd::hub, token);
  std::optional<PeerMessage> reply;
  REQUIRE(hub.receive({"challenge", {nonce}}, reply));
  return *reply;
}

}  // namespace

TEST_CASE("two ends that know the token authenticate without revealing it") {
  const Token token;
  Wire w(token);
  w.spoke->send(hello_of_3);
  w.relay();
  REQUIRE(w.hub->proven());
  REQUIRE(w.spoke->proven());
  CHECK(w.at_hub == std::vector{hello_of_3});
  w.hub->send(end_0);
  w.spoke->send({"beat", {"step", "7"}});
  w.relay();
  CHECK(w.at_spoke == std::vector{end_0});
  CHECK(w.at_hub.back() == PeerMessage{"beat", {"step", "7"}});
  const std::string key(token.key().begin(), token.key().end());
  for (const std::string& said : {w.sent_by_hub, w.sent_by_spoke}) {
    CHECK(said.find(token.text()) == std::string::npos);
    CHECK(said.find(key) == std::string::npos);
  }
  const std::vector<std::string> of_spoke = lines_of(w.sent_by_spoke);
  REQUIRE(of_spoke.size() == 4);
  CHECK(of_spoke[0].starts_with("challenge\t"));
  CHECK(of_spoke[1].starts_with("proof\t"));
  CHECK(of_spoke[2].find("host-of-3") != std::string::npos);
}

TEST_CASE("a token survives a round trip through text and is unique") {
  const Token token;
  CHECK(Token(token.text()).key() == token.key());
  CHECK(Token().key() != token.key());
  CHECK_THROWS(Token(""));
  CHECK_THROWS(Token(token.text() + "0"));
  CHECK_THROWS(Token(std::string(64, 'x')));
}

TEST_CASE("peers with different tokens do not authenticate and the spoke sends only its challenge") {
  Wire w{Token(), Token()};
  w.spoke->send(hello_of_3);
  w.relay();
  CHECK(w.spoke_state == State::unauthenticated);
  CHECK_FALSE(w.spoke->proven());
  CHECK_FALSE(w.hub->proven());
  CHECK(lines_of(w.sent_by_spoke).size() == 1);
  CHECK(w.at_hub.empty());
  CHECK(w.at_spoke.empty());
}

TEST_CASE("a spoke obeys no peer that has not proven the token") {
  const Token token;
  const std::string zeros(64, '0');
  for (const std::string& said :
       {std::string("end\t0\n"), std::string("welcome\thost\t1\tnode\n"), "proof\t" + zeros + "\t" + zeros + "\n",
        std::string("proof\n"), std::string("\n"), zeros + "end\t0\n", std::string(5000, 'x')}) {
    Wire w(token);
    w.spoke->send(hello_of_3);
    send_raw(w.to_spoke, said);
    CHECK(w.receive_spoke() == State::unauthenticated);
    CHECK(w.at_spoke.empty());
    CHECK(receive_raw(w.to_spoke).find("host-of-3") == std::string::npos);
    CHECK(w.spoke->held_bytes() <= PeerChannel::kMostUnproven);
  }
}

TEST_CASE("a recorded handshake cannot be replayed") {
  const Token token;
  Wire recorded(token);
  recorded.spoke->send(hello_of_3);
  recorded.relay();
  recorded.hub->send(end_0);
  recorded.relay();
  Wire later(token);
  send_raw(later.to_hub, recorded.sent_by_spoke);
  CHECK(later.receive_hub() == State::unauthenticated);
  CHECK(later.at_hub.empty());
  send_raw(later.to_spoke, recorded.sent_by_hub);
  CHECK(later.receive_spoke() == State::unauthenticated);
  CHECK(later.at_spoke.empty());
}

TEST_CASE("a reflected message proves nothing") {
  const Token token;
  SECTION("a spoke's challenge, to the spoke") {
    Wire w(token);
    send_raw(w.to_spoke, receive_raw(w.to_spoke));
    CHECK(w.receive_spoke() == State::unauthenticated);
  }
  SECTION("the hub's proof, to the hub") {
    Wire w(token);
    send_raw(w.to_hub, receive_raw(w.to_spoke));
    CHECK(w.receive_hub() == State::open);
    const PeerMessage proof = decode(lines_of(receive_raw(w.to_hub)).at(0).substr(0, 5 + 1 + 64 + 1 + 64));
    REQUIRE(proof.fields.size() == 2);
    send_raw(w.to_hub, "proof\t" + proof.text(1) + "\n");
    CHECK(w.receive_hub() == State::unauthenticated);
  }
  SECTION("the hub's answer to its own nonce, on another connection") {
    Wire w(token);
    send_raw(w.to_hub, receive_raw(w.to_spoke));
    CHECK(w.receive_hub() == State::open);
    const std::string line = lines_of(receive_raw(w.to_hub)).at(0);
    const std::string nonce = decode(line.substr(0, line.size() - 1)).text(0);
    send_raw(w.to_hub, "proof\t" + answer_of_hub(token, nonce).text(1) + "\n");
    CHECK(w.receive_hub() == State::unauthenticated);
  }
  SECTION("a spoke's line, to the spoke") {
    Wire w(token);
    w.relay();
    w.spoke->send(end_0);
    send_raw(w.to_spoke, receive_raw(w.to_spoke));
    CHECK(w.receive_spoke() == State::broken);
    CHECK(w.at_spoke.empty());
  }
}

TEST_CASE("a line that is altered, dropped, repeated or forged breaks the connection and is not delivered") {
  const Token token;
  Wire w(token);
  w.relay();
  REQUIRE(w.spoke->proven());
  w.hub->send({"hub", {"step", "1"}});
  w.hub->send({"hub", {"step", "2"}});
  w.hub->send(end_0);
  const std::vector<std::string> lines = lines_of(receive_raw(w.to_hub));
  REQUIRE(lines.size() == 3);
  size_t heard = 0;
  SECTION("as they were sent, they are heard") {
    for (const std::string& line : lines) send_raw(w.to_spoke, line);
    CHECK(w.receive_spoke() == State::open);
    CHECK(w.at_spoke.size() == 3);
    return;
  }
  SECTION("altered") {
    std::string line = lines[0];
    line[line.size() - 2] = '2';
    send_raw(w.to_spoke, line);
  }
  SECTION("left out") { send_raw(w.to_spoke, lines[1]); }
  SECTION("said twice") {
    send_raw(w.to_spoke, lines[0] + lines[0]);
    heard = 1;
  }
  SECTION("made up") { send_raw(w.to_spoke, "end\t0\n"); }
  SECTION("with the mark of another") { send_raw(w.to_spoke, lines[0].substr(0, 32) + lines[2].substr(32)); }
  SECTION("cut") { send_raw(w.to_spoke, lines[0].substr(0, 31) + "\n"); }
  CHECK(w.receive_spoke() == State::broken);
  CHECK(w.at_spoke.size() == heard);
}
