#include "launch/raw_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <fstream>

namespace fp::test {

fp::FileDescriptor connect_to(uint16_t port, const std::string& address) {
  fp::FileDescriptor s(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  const bool made = ::connect(s.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0;
  if (!made && errno != EINPROGRESS) return fp::FileDescriptor();
  pollfd p{s.get(), POLLOUT, 0};
  ::poll(&p, 1, 1000);
  return s;
}

void send_raw(const fp::FileDescriptor& s, const std::string& text) {
  [[maybe_unused]] const ssize_t n = ::send(s.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string receive_raw(const fp::FileDescriptor& s, size_t bytes) {
  std::string heard;
  while (heard.size() < bytes && !is_dropped(s)) {
    fp::wait_readable({s.get()}, 1);
    heard += receive_raw(s);
  }
  return heard;
}

std::string receive_raw(const fp::FileDescriptor& s) {
  std::array<char, 65536> buffer;
  const ssize_t n = ::recv(s.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  return n > 0 ? std::string(buffer.data(), static_cast<size_t>(n)) : std::string();
}

bool is_dropped(const fp::FileDescriptor& s) {
  char c = 0;
  const ssize_t n = ::recv(s.get(), &c, 1, MSG_DONTWAIT | MSG_PEEK);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

int listen_backlog() {
  int most = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> most;
  return most;
}

bool is_refused(uint16_t port) {
  const fp::FileDescriptor s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(s.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) != 0 && errno == ECONNREFUSED;
}

}  // namespace fp::test
