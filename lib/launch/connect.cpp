// How ranks find rank 0: where it listens, and which of its addresses leads there.
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

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

constexpr double kHeadStart = 0.25;  // seconds that an address has before the next is tried beside it
constexpr double kLookAtNames = 0.05;

using Target = std::vector<char>;  // a sockaddr

const sockaddr* address_of(const Target& t) { return reinterpret_cast<const sockaddr*>(t.data()); }

std::vector<Target> resolve(const std::string& name, const std::string& port, int flags) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  std::vector<Target> targets;
  if (::getaddrinfo(name.c_str(), port.c_str(), &hints, &found) != 0) return targets;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const auto* bytes = reinterpret_cast<const char*>(a->ai_addr);
    targets.emplace_back(bytes, bytes + a->ai_addrlen);
  }
  return targets;
}

// Looks names up in a thread of its own, since a name server may take minutes to answer.
class NameLookup {
 public:
  NameLookup(std::vector<std::string> names, std::string port) : state_(std::make_shared<State>()) {
    state_->left = names.size();
    std::thread([state = state_, names = std::move(names), port = std::move(port)] {
      for (const std::string& name : names) {
        std::vector<Target> found = resolve(name, port, 0);
        const std::lock_guard lock(state->mutex);
        --state->left;
        for (Target& t : found) state->found.push_back(std::move(t));
      }
    }).detach();
  }
  // Moves what was found behind the others; whether more may come.
  bool take(std::deque<Target>& targets) {
    const std::lock_guard lock(state_->mutex);
    for (Target& t : state_->found) targets.push_back(std::move(t));
    state_->found.clear();
    return state_->left > 0;
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<Target> found;
    size_t left = 0;
  };
  std::shared_ptr<State> state_;
};

// A way to rank 0 that is being tried: first a socket that connects, then a channel that waits for the welcome.
struct Attempt {
  Descriptor socket;
  std::unique_ptr<PeerChannel> channel;
  int fd() const { return channel ? channel->fd() : socket.get(); }
};

// A socket that connects, or has; one of descriptor -1 where that failed at once, with errno.
Descriptor begin_connect(const Target& where) {
  Descriptor s(::socket(address_of(where)->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (s.get() < 0) return s;
  const bool under_way =
      ::connect(s.get(), address_of(where), static_cast<socklen_t>(where.size())) == 0 || errno == EINPROGRESS;
  return under_way ? std::move(s) : Descriptor();
}

// The error of a socket that had been connecting; 0: it is connected.
int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// One step of an attempt whose descriptor is ready: false where it leads nowhere. `answers` begin with a welcome once
// rank 0 is there.
bool go_on(Attempt& a, const PeerMessage& hello, std::vector<PeerMessage>& answers) {
  if (!a.channel) {
    if (connect_error(a.socket.get()) != 0) return false;
    a.channel = std::make_unique<PeerChannel>(std::move(a.socket));
    a.channel->send(hello);
    return true;
  }
  std::vector<PeerMessage> messages;
  const bool open = a.channel->receive(messages) == PeerChannel::State::open;
  if (messages.empty()) return open;
  if (messages.front().verb != "welcome") return false;
  answers = std::move(messages);
  return true;
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
      throw InfrastructureError(fmt::format("cannot listen for the other ranks: {}", std::strerror(errno)));
  }
  if (::listen(fd(), SOMAXCONN) != 0)
    throw InfrastructureError(fmt::format("cannot listen for the other ranks: {}", std::strerror(errno)));
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
  std::vector<std::string> candidates, names;
  in >> port >> token >> machine;
  if (machine == machine_id()) candidates = {"127.0.0.1", "::1"};
  for (std::string a; in >> a;) candidates.push_back(a);
  hello.fields.insert(hello.fields.begin(), token);
  std::deque<Target> targets;
  for (const std::string& candidate : candidates) {
    const std::vector<Target> numeric = resolve(candidate, port, AI_NUMERICHOST);
    if (numeric.empty()) names.push_back(candidate);
    targets.insert(targets.end(), numeric.begin(), numeric.end());
  }
  NameLookup lookup(names, port);
  // Some of the addresses may lead nowhere, and say so late: the next is tried beside them.
  std::vector<Attempt> attempts;
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_s);
  auto next = Clock::now();
  for (;;) {
    const bool more = lookup.take(targets);
    const auto now = Clock::now();
    if (now >= deadline || (targets.empty() && attempts.empty() && !more)) break;
    if (!targets.empty() && (attempts.empty() || now >= next)) {
      if (Descriptor s = begin_connect(targets.front()); s.get() >= 0) attempts.push_back({std::move(s), nullptr});
      targets.pop_front();
      next = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kHeadStart));
      continue;
    }
    double wait_s = std::chrono::duration<double>(deadline - now).count();
    if (!targets.empty()) wait_s = std::min(wait_s, std::chrono::duration<double>(next - now).count());
    if (more) wait_s = std::min(wait_s, kLookAtNames);
    std::vector<pollfd> polled;
    for (const Attempt& a : attempts) polled.push_back({a.fd(), static_cast<short>(a.channel ? POLLIN : POLLOUT), 0});
    constexpr double kLongestPollS = 1e6;
    ::poll(polled.data(), polled.size(), static_cast<int>(std::ceil(std::min(wait_s, kLongestPollS) * 1000)));
    for (size_t i = attempts.size(); i-- > 0;) {
      if (polled[i].revents == 0) continue;
      std::vector<PeerMessage> answers;
      if (!go_on(attempts[i], hello, answers)) attempts.erase(attempts.begin() + static_cast<std::ptrdiff_t>(i));
      if (!answers.empty()) return {std::move(attempts[i].channel), std::move(answers)};
    }
  }
  throw InfrastructureError(fmt::format("cannot reach rank 0 from host {}: tried port {} of {}", host_name(), port,
                                        fmt::join(candidates, ", ")));
}

FormerPeer::FormerPeer(const PeerChannel& channel) : address_(sizeof(sockaddr_storage)) {
  auto size = static_cast<socklen_t>(address_.size());
  if (::getpeername(channel.fd(), reinterpret_cast<sockaddr*>(address_.data()), &size) != 0) size = 0;
  address_.resize(size);
}

std::unique_ptr<PeerChannel> FormerPeer::connect(double timeout_s, bool& refused) const {
  refused = false;
  if (address_.empty()) return nullptr;
  Descriptor s = begin_connect(address_);
  int error = s.get() < 0 ? errno : ETIMEDOUT;
  pollfd p{s.get(), POLLOUT, 0};
  if (s.get() >= 0 && ::poll(&p, 1, static_cast<int>(std::ceil(timeout_s * 1000))) == 1) error = connect_error(s.get());
  refused = error == ECONNREFUSED;
  return error == 0 ? std::make_unique<PeerChannel>(std::move(s)) : nullptr;
}

std::string token_of(const std::string& address) {
  std::istringstream in(address);
  std::string port, token;
  in >> port >> token;
  return token;
}

}  // namespace fp
