// How ranks find rank 0: where it listens, and which of its addresses leads there.
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "launch/channel.h"
#include "launch/placement.h"

namespace fp {
namespace {

using Clock = std::chrono::steady_clock;

// Tells machines apart, and one machine before and after a restart.
std::string machine_id() {
  std::string id = "-";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

// The numeric addresses of this machine's interfaces but loopback, then its name.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) list = nullptr;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    const int family = i->ifa_addr == nullptr ? AF_UNSPEC : i->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(i->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::strchr(text.data(), '%') == nullptr) addresses.emplace_back(text.data());  // %: of one link only
  }
  if (list != nullptr) ::freeifaddrs(list);
  addresses.push_back(host_name());
  return addresses;
}

// A connected socket, or -1.
Descriptor try_connect(const addrinfo& where, double timeout_s) {
  Descriptor s(::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (s.get() < 0) return s;
  if (::connect(s.get(), where.ai_addr, where.ai_addrlen) == 0) return s;
  if (errno != EINPROGRESS) return Descriptor();
  pollfd p{s.get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof(error);
  const bool ready = ::poll(&p, 1, static_cast<int>(timeout_s * 1000)) == 1;
  if (!ready || ::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return Descriptor();
  return s;
}

// What came in answer to `hello`, if a listener of ours did answer.
std::vector<PeerMessage> greet(PeerChannel& channel, const PeerMessage& hello, double timeout_s) {
  channel.send(hello);
  std::vector<PeerMessage> messages;
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_s);
  while (messages.empty()) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) return {};
    wait_readable({channel.fd()}, left);
    if (!channel.receive(messages)) return {};
  }
  return messages.front().verb == "welcome" ? messages : std::vector<PeerMessage>{};
}

}  // namespace

Listener::Listener() {
  std::random_device random;
  for (int i = 0; i < 4; ++i) token_ += fmt::format("{:08x}", random());
  const int flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  socket_ = Descriptor(::socket(AF_INET6, flags, 0));  // takes IPv4 too
  const int no = 0;
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  const bool six = socket_.get() >= 0 && ::setsockopt(fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)) == 0 &&
                   ::bind(fd(), reinterpret_cast<const sockaddr*>(&any6), sizeof(any6)) == 0;
  if (!six) {
    socket_ = Descriptor(::socket(AF_INET, flags, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    if (socket_.get() < 0 || ::bind(fd(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0)
      throw DeviceError(fmt::format("cannot listen for the other ranks: {}", std::strerror(errno)));
  }
  if (::listen(fd(), SOMAXCONN) != 0)
    throw DeviceError(fmt::format("cannot listen for the other ranks: {}", std::strerror(errno)));
}

std::string Listener::address() const {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(fd(), reinterpret_cast<sockaddr*>(&bound), &size);
  const in_port_t port = bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                                     : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  std::string text = fmt::format("{} {} {}", ntohs(port), token_, machine_id());
  for (const std::string& a : own_addresses()) text += " " + a;
  return text;
}

Descriptor Listener::accept() { return Descriptor(::accept4(fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); }

Greeting connect(const std::string& address, PeerMessage hello, double timeout_s) {
  std::istringstream in(address);
  std::string port, token, machine;
  std::vector<std::string> candidates;
  in >> port >> token >> machine;
  if (machine == machine_id()) candidates.emplace_back("localhost");
  for (std::string a; in >> a;) candidates.push_back(a);
  hello.fields.insert(hello.fields.begin(), token);
  const double each = timeout_s / 4;  // some of the addresses may lead nowhere
  for (const std::string& candidate : candidates) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(candidate.c_str(), port.c_str(), &hints, &found) != 0) continue;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
      Descriptor socket = try_connect(*a, each);
      if (socket.get() < 0) continue;
      auto channel = std::make_unique<PeerChannel>(std::move(socket));
      std::vector<PeerMessage> answers = greet(*channel, hello, each);
      if (!answers.empty()) return {std::move(channel), std::move(answers)};
    }
  }
  throw DeviceError(fmt::format("cannot reach rank 0 from host {}: tried port {} of {}", host_name(), port,
                                fmt::join(candidates, ", ")));
}

}  // namespace fp
