// Arbitrary bytes of an unauthenticated peer to either end of the lifeline: none becomes a message, and little is
// buffered.
#include <sys/socket.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "launch/channel.h"
#include "target.h"

namespace {

void receive(std::string_view input, fp::LifelineEnd self) {
  std::array<int, 2> ends{};
  FP_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "no sockets");
  const fp::FileDescriptor peer(ends[1]);
  fp::PeerChannel channel(fp::FileDescriptor(ends[0]), self, fp::Token());
  channel.send({"beat", {"training"}});
  std::vector<fp::PeerMessage> messages;
  auto state = fp::PeerChannel::State::open;
  // Sends in pieces, as a network may deliver them.
  for (size_t at = 0; at < input.size() && state == fp::PeerChannel::State::open; at += 1000) {
    const std::string_view piece = input.substr(at, 1000);
    if (::send(peer.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT) <= 0) break;
    state = channel.receive(messages);
    FP_CHECK(channel.held_bytes() <= 2 * fp::PeerChannel::kMostUnproven, "{} bytes are buffered", channel.held_bytes());
  }
  FP_CHECK(!channel.proven() && messages.empty(), "an unauthenticated peer was accepted");
}

}  // namespace

FP_FUZZ_TARGET(lifeline_handshake) {
  for (const fp::LifelineEnd self : {fp::LifelineEnd::hub, fp::LifelineEnd::spoke})
    receive(fp_fuzz::text_of(data, size), self);
  return 0;
}
