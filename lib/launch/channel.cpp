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
constexpr int kUnreachableMs = 60000;  // a host that answers no packet for so long is gone

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof(value)); }

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

PeerChannel::PeerChannel(Descriptor socket) : socket_(std::move(socket)) {
  set_option(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  // A stopped process still answers through its kernel; a host that is gone does not.
  set_option(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUnreachableMs);
  set_option(fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPINTVL, 10);
}

void PeerChannel::send(const PeerMessage& m) {
  if (!m.verb.empty()) out_ += encode(m) + "\n";
  while (!out_.empty()) {
    const ssize_t n = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    // The system tells of a reset once, whoever asks first; afterwards it looks to receive() like an orderly end.
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EPIPE) broken_ = true;
    if (n <= 0) return;  // full, or broken, which receive() will tell
    out_.erase(0, static_cast<size_t>(n));
  }
}

PeerChannel::State PeerChannel::receive(std::vector<PeerMessage>& messages) {
  std::array<char, 4096> buffer;
  State state = State::open;
  while (state == State::open) {
    const ssize_t n = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n == 0 || in_.size() >= kLongestLine) state = broken_ ? State::broken : State::closed;
    if (n < 0) state = State::broken;
    if (n > 0) in_.append(buffer.data(), static_cast<size_t>(n));
  }
  size_t at = 0;
  for (size_t end; (end = in_.find('\n', at)) != std::string::npos; at = end + 1)
    messages.push_back(decode(std::string_view(in_).substr(at, end - at)));
  in_.erase(0, at);
  return state;
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
