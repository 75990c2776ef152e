// Connections to rank 0 that have not proven that they know the token. Anybody can open them, so their number, lifetime
// and bytes are limited, and rank 0's thread does no more for them than it can do beside its work.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "launch/channel.h"
#include "launch/clock.h"
#include "launch/listener.h"

namespace fp {

class UnauthenticatedPeers {
 public:
  static constexpr size_t kMost = 64;
  // A peer must authenticate and identify itself within kPatience_s seconds. When kMost peers are present, or no
  // descriptor is free, the oldest is dropped for the next one, once it has had kGrace_s seconds; until then new
  // connections wait in the system's queue. So a thousand ranks that connect at once do not displace each other, and of
  // a flood of silent connections at most 640 per second are accepted.
  static constexpr double kPatience_s = 5, kGrace_s = 0.1;

  UnauthenticatedPeers(MonotonicClock& clock, Token token) : clock_(clock), token_(token) {}

  struct Newcomer {
    std::unique_ptr<PeerChannel> channel;  // authenticated
    PeerMessage hello;                     // its first message
    size_t door;                           // of the listener (Listener::Visitor)
  };
  // Receives from the peers, drops those that fail, have gone or are too late, and accepts waiting connections. Returns
  // the peers that have authenticated.
  std::vector<Newcomer> serve(Listener&);
  void drop_all();

  // The descriptors to wait for, which include the listener's unless accepting is paused, and the time until which to
  // wait.
  std::vector<int> fds(const Listener&) const;
  MonotonicClock::Time due() const;
  size_t count() const { return peers_.size(); }
  size_t held_bytes() const;

 private:
  struct UnauthenticatedPeer {
    std::unique_ptr<PeerChannel> channel;
    size_t door;
    MonotonicClock::Time since;
  };
  void receive_all(std::vector<Newcomer>& proven);
  bool drop_oldest();

  MonotonicClock& clock_;
  const Token token_;
  std::deque<UnauthenticatedPeer> peers_;  // oldest first
  MonotonicClock::Time paused_until_ = MonotonicClock::Time::min();
};

}  // namespace fp
