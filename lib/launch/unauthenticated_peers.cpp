#include "launch/unauthenticated_peers.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace fp {
namespace {

constexpr double kNoDescriptor_s = 0.5;  // until the next attempt if dropping a peer would not free a descriptor

MonotonicClock::Time::duration seconds_of_clock(double s) {
  return std::chrono::duration_cast<MonotonicClock::Time::duration>(std::chrono::duration<double>(s));
}

}  // namespace

std::vector<UnauthenticatedPeers::Newcomer> UnauthenticatedPeers::serve(Listener& listener) {
  std::vector<Newcomer> proven;
  receive_all(proven);
  if (clock_.now() < paused_until_) return proven;
  for (size_t i = 0; i < kMost; ++i) {
    if (peers_.size() == kMost && !drop_oldest()) break;
    int error = 0;
    auto visitor = listener.accept(error);
    if (visitor) {
      auto channel = std::make_unique<PeerChannel>(std::move(visitor->socket), LifelineEnd::hub, token_);
      peers_.push_back({std::move(channel), visitor->door, clock_.now()});
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      if (!drop_oldest()) break;
    } else if (error == 0) {
      break;
    }  // else the error concerns that one connection
  }
  receive_all(proven);
  return proven;
}

void UnauthenticatedPeers::receive_all(std::vector<Newcomer>& proven) {
  const size_t before = peers_.size();
  std::erase_if(peers_, [&](UnauthenticatedPeer& p) {
    std::vector<PeerMessage> messages;
    const bool open = p.channel->receive(messages) == PeerChannel::State::open;
    if (open && !messages.empty()) proven.push_back({std::move(p.channel), std::move(messages.front()), p.door});
    return !open || !messages.empty() || clock_.now() >= p.since + seconds_of_clock(kPatience_s);
  });
  if (peers_.size() < before) paused_until_ = MonotonicClock::Time::min();
}

// Drops the oldest peer. Returns false if none has had kGrace_s yet, and pauses accepting until one has.
bool UnauthenticatedPeers::drop_oldest() {
  const auto leaves =
      peers_.empty() ? clock_.after(kNoDescriptor_s) : peers_.front().since + seconds_of_clock(kGrace_s);
  if (peers_.empty() || clock_.now() < leaves) {
    paused_until_ = leaves;
    return false;
  }
  peers_.pop_front();
  return true;
}

void UnauthenticatedPeers::drop_all() {
  peers_.clear();
  paused_until_ = MonotonicClock::Time::min();
}

std::vector<int> UnauthenticatedPeers::fds(const Listener& listener) const {
  std::vector<int> list;
  if (clock_.now() >= paused_until_) list = listener.fds();
  for (const UnauthenticatedPeer& p : peers_) list.push_back(p.channel->fd());
  return list;
}

MonotonicClock::Time UnauthenticatedPeers::due() const {
  auto first = MonotonicClock::Time::max();
  if (!peers_.empty()) first = peers_.front().since + seconds_of_clock(kPatience_s);
  return clock_.now() < paused_until_ ? std::min(first, paused_until_) : first;
}

size_t UnauthenticatedPeers::held_bytes() const {
  size_t sum = 0;
  for (const UnauthenticatedPeer& p : peers_) sum += p.channel->held_bytes();
  return sum;
}

}  // namespace fp
