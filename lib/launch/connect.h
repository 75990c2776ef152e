// Connects the other ranks to rank 0, at the start and after a connection is lost: finds an address that is reachable
// and verifies that rank 0 answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/channel.h"

namespace fp {

// The addresses of rank 0, and the token that proves its identity. MPI distributes text() to the other ranks.
struct MeetingPoint {
  uint16_t port = 0;
  Token token;
  std::vector<std::string> addresses;  // numeric addresses or host names

  std::string text() const;  // port, token and addresses, separated by blanks
  static MeetingPoint from_text(const std::string&);
};

struct Greeting {
  std::unique_ptr<PeerChannel> channel;  // authenticated
  std::vector<PeerMessage> answers;      // the first is a "welcome"
};
// Tries all addresses concurrently, each a moment after the one before it, and sends `hello` to the first that proves
// that it knows the token; any other peer learns only that somebody connected. A dropped connection is retried after
// delays that depend on `rank`, so that the ranks do not all connect at once. Throws InfrastructureError naming the
// addresses that were tried and those that answered but are not rank 0; before the timeout if no address is left or
// rank 0 refuses this rank.
Greeting connect(const MeetingPoint&, const PeerMessage& hello, double timeout_s, int rank);

// Returns a number between 0 and 1 that differs by rank, address (`route`) and try, to spread in time what many ranks
// would do at once.
double jitter(int rank, int route, int tries);

// The remote address of a connection, for reconnecting after it broke.
class FormerPeer {
 public:
  FormerPeer(const PeerChannel&, const Token&);  // of a working connection
  // Returns a new connection, not yet authenticated; nullptr if none could be established within the timeout.
  std::unique_ptr<PeerChannel> connect(double timeout_s) const;

 private:
  std::vector<char> address_;  // a sockaddr
  Token token_;
};

}  // namespace fp
