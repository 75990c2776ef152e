#include "launch/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace fp {
namespace {

constexpr int kTries = 50;  // attempts to find a port that is free on all addresses

using AddressInfo = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressInfo numeric_address(const std::string& address, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

// Returns a socket that is bound but does not listen; descriptor -1 with errno on failure.
FileDescriptor bound_socket(const std::string& address, uint16_t port) {
  const AddressInfo where = numeric_address(address, port);
  if (!where) {
    errno = EADDRNOTAVAIL;
    return FileDescriptor();
  }
  FileDescriptor s(::socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (s.get() >= 0 && where->ai_family == AF_INET6) ::setsockopt(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  return s.get() >= 0 && ::bind(s.get(), where->ai_addr, where->ai_addrlen) == 0 ? std::move(s) : FileDescriptor();
}

uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

// Existing connections of a door must not prevent its listen(), while a closed door must keep other processes from
// binding the port.
void share_with_own_connections(int fd, bool share) {
  const int value = share ? 1 : 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof(value));
}

}  // namespace

Listener::Listener(const std::vector<std::string>& addresses) {
  int reason = EADDRNOTAVAIL;
  for (int tries = 0; tries < kTries && doors_.empty(); ++tries) {
    // The system chooses a port for the first address that works. It is bound again by its number, since a port that
    // the system chose would be lost at close().
    uint16_t port = 0;
    for (const std::string& address : addresses) {
      const FileDescriptor probe = bound_socket(address, 0);
      if (probe.get() < 0) reason = errno;
      if (probe.get() >= 0 && (port = port_of(probe.get())) != 0) break;
    }
    if (port == 0) break;
    if (!bind_all(addresses, port)) {  // another process has this port on another address
      doors_.clear();
      reason = EADDRINUSE;
    }
    port_ = port;
  }
  const bool bound = !doors_.empty();
  if (bound && open()) return;
  if (bound) reason = errno;
  throw InfrastructureError(
      fmt::format("cannot listen for the other ranks on {}: {}", fmt::join(addresses, ", "), std::strerror(reason)));
}

bool Listener::bind_all(const std::vector<std::string>& addresses, uint16_t port) {
  for (const std::string& address : addresses) {
    // Unnumbered links share the address of another interface.
    if (std::ranges::any_of(doors_, [&](const Door& d) { return d.address == address; })) continue;
    FileDescriptor s = bound_socket(address, port);
    if (s.get() < 0 && errno == EADDRINUSE) return false;
    if (s.get() >= 0) doors_.push_back({address, std::move(s)});
  }
  return true;
}

std::vector<std::string> Listener::addresses() const {
  std::vector<std::string> list;
  for (const Door& d : doors_) list.push_back(d.address);
  return list;
}

std::vector<int> Listener::fds() const {
  std::vector<int> list;
  for (const Door& d : doors_) {
    if (open_) list.push_back(d.socket.get());
  }
  return list;
}

bool Listener::open() {
  open_ = true;
  for (Door& d : doors_) {
    share_with_own_connections(d.socket.get(), true);
    if (::listen(d.socket.get(), SOMAXCONN) == 0) continue;
    const int reason = errno;
    close();
    errno = reason;
    return false;
  }
  return true;
}

void Listener::close() {
  open_ = false;
  std::erase_if(doors_, [](const Door& d) { return !d.kept; });
  for (Door& d : doors_) {
    ::shutdown(d.socket.get(), SHUT_RD);  // still bound, but refuses connections
    share_with_own_connections(d.socket.get(), false);
  }
}

std::optional<Listener::Visitor> Listener::accept(int& error) {
  error = 0;
  for (size_t asked = 0; open_ && asked < doors_.size(); ++asked) {
    const size_t door = next_++ % doors_.size();
    FileDescriptor s(::accept4(doors_[door].socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (s.get() >= 0) return Visitor{std::move(s), door};
    if (errno == EAGAIN || errno == EWOULDBLOCK) continue;
    error = errno;
    return {};
  }
  return {};
}

}  // namespace fp
