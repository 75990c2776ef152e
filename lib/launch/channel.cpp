#include "launch/channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

#include "base/error.h"

namespace fp {
namespace {

constexpr size_t kLongestLine = 1 << 20;
constexpr int kUnreachableMs = 60000;  // a host that acknowledges no packet for this time counts as gone

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof(value)); }

}  // namespace

PeerChannel::PeerChannel(FileDescriptor socket, LifelineEnd self, const Token& token)
    : socket_(std::move(socket)), handshake_(self, token) {
  set_option(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  // A stopped process still answers through its kernel; a host that is gone does not.
  set_option(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUnreachableMs);
  set_option(fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPINTVL, 10);
  if (const auto opening = handshake_.opening()) {
    out_ = encode(*opening) + "\n";
    flush();
  }
}

void PeerChannel::send(const PeerMessage& m) {
  if (!proven()) {
    early_.push_back(m);
    return;
  }
  out_ += sent_->sign(encode(m)) + "\n";
  flush();
}

void PeerChannel::flush() {
  while (!out_.empty()) {
    const ssize_t n = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    // The kernel reports a reset only once; afterwards receive() would see an orderly end.
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EPIPE) broken_ = true;
    if (n <= 0) return;  // full, or broken, which receive() will report
    out_.erase(0, static_cast<size_t>(n));
  }
}

PeerChannel::State PeerChannel::receive(std::vector<PeerMessage>& messages) {
  std::array<char, 4096> buffer;
  for (State state = State::open; state == State::open;) {
    const size_t most = proven() ? buffer.size() : std::min(buffer.size(), kMostUnproven - unproven_bytes_);
    if (most == 0) return State::unauthenticated;
    const ssize_t n = ::recv(fd(), buffer.data(), most, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n == 0) return broken_ ? State::broken : State::closed;
    if (n < 0) return State::broken;
    if (!proven()) unproven_bytes_ += static_cast<size_t>(n);
    const size_t searched = in_.size();
    in_.append(buffer.data(), static_cast<size_t>(n));
    state = take_lines(searched, messages);
    if (state == State::broken) {  // an orderly end would mean that this process is gone
      const linger reset{1, 0};
      ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    if (state != State::open) return state;
  }
  return State::open;
}

PeerChannel::State PeerChannel::take_lines(size_t searched, std::vector<PeerMessage>& messages) {
  size_t at = 0;
  for (size_t end; (end = in_.find('\n', std::max(at, searched))) != std::string::npos; at = end + 1) {
    const bool was_proven = proven();
    if (!take_line(std::string_view(in_).substr(at, end - at), messages))
      return was_proven ? State::broken : State::unauthenticated;
  }
  in_.erase(0, at);
  return in_.size() < kLongestLine ? State::open : State::broken;
}

// Returns false if the line does not authenticate the peer, or the peer cannot have sent it.
bool PeerChannel::take_line(std::string_view line, std::vector<PeerMessage>& messages) {
  if (proven()) {
    const auto opened = received_->verify(line);
    if (opened) messages.push_back(decode(*opened));
    return opened.has_value();
  }
  std::optional<PeerMessage> reply;
  if (!handshake_.receive(decode(line), reply)) return false;
  if (reply) out_ += encode(*reply) + "\n";
  if (proven()) {
    sent_ = handshake_.outgoing();
    received_ = handshake_.incoming();
    for (const PeerMessage& m : std::exchange(early_, {})) out_ += sent_->sign(encode(m)) + "\n";
  }
  flush();
  return true;
}

void PeerChannel::finish_sending() { ::shutdown(fd(), SHUT_WR); }

Mailbox::Mailbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  FP_CHECK(wake_.get() >= 0, "eventfd: errno {}", errno);
}

void Mailbox::post(PeerMessage m) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(m));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(fd(), &one, sizeof(one));
}

std::vector<PeerMessage> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(fd(), &count, sizeof(count));
  return std::exchange(messages_, {});
}

std::vector<int> wait_readable(const std::vector<int>& fds, double timeout_s) {
  std::vector<pollfd> polled;
  polled.reserve(fds.size());
  for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
  constexpr double kLongestPollMs = 1e9;
  ::poll(polled.data(), polled.size(), static_cast<int>(std::clamp(std::ceil(timeout_s * 1000), 0.0, kLongestPollMs)));
  std::vector<int> ready;
  for (const pollfd& p : polled) {
    if (p.revents != 0) ready.push_back(p.fd);
  }
  std::sort(ready.begin(), ready.end());
  return ready;
}

}  // namespace fp
