#include "launch/connect.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/philox.h"
#include "launch/placement.h"

namespace fp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBetweenRoutes = 0.02;  // seconds from the first try of one address to that of the next
constexpr double kFirstRetry = 0.1, kLongestRetry = 2;
constexpr double kPollNames = 0.05;
constexpr double kLongestPollS = 1e6;

using Target = std::vector<char>;  // a sockaddr

const sockaddr* address_of(const Target& t) { return reinterpret_cast<const sockaddr*>(t.data()); }

Clock::time_point later(Clock::time_point t, double seconds) {
  return t + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

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
  struct Found {
    std::string name;
    Target where;
  };

  NameLookup(std::vector<std::string> names, std::string port) : state_(std::make_shared<State>()) {
    state_->left = names.size();
    if (names.empty()) return;
    sigset_t all, former;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &former);  // signals go to the main thread
    std::thread([state = state_, names = std::move(names), port = std::move(port)] {
      for (const std::string& name : names) {
        std::vector<Target> found = resolve(name, port, 0);
        const std::lock_guard lock(state->mutex);
        --state->left;
        for (Target& t : found) state->found.push_back({name, std::move(t)});
      }
    }).detach();
    ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
  }
  // Returns the addresses found since the last call; sets `more` if more may follow.
  std::vector<Found> take(bool& more) {
    const std::lock_guard lock(state_->mutex);
    more = state_->left > 0;
    return std::exchange(state_->found, {});
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<Found> found;
    size_t left = 0;
  };
  std::shared_ptr<State> state_;
};

// Returns a socket that is connecting or connected; descriptor -1, with errno, if that failed at once.
FileDescriptor begin_connect(const Target& where) {
  FileDescriptor s(::socket(address_of(where)->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (s.get() < 0) return s;
  const bool under_way =
      ::connect(s.get(), address_of(where), static_cast<socklen_t>(where.size())) == 0 || errno == EINPROGRESS;
  return under_way ? std::move(s) : FileDescriptor();
}

// Returns the error of a socket that was connecting; 0: it is connected.
int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// An attempt to reach rank 0 at one address: waits for its time, then connects, then waits for the welcome.
struct Route {
  std::string name;
  Target where;
  int number;  // for jitter()
  Clock::time_point next;
  int tries = 0;
  FileDescriptor socket{};
  std::unique_ptr<PeerChannel> channel{};

  bool waits() const { return !channel && socket.get() < 0; }
  int fd() const { return channel ? channel->fd() : socket.get(); }
};

class Connector {
 public:
  Connector(const MeetingPoint& point, const PeerMessage& hello, int rank)
      : point_(point), hello_(hello), rank_(rank), lookup_(add_numeric(), std::to_string(point.port)) {}
  Greeting run(double timeout_s);

 private:
  enum class Outcome { proceed, retry, dead };

  std::vector<std::string> add_numeric();  // returns the host names, which take time to resolve
  void add(const std::string& name, Target);
  void begin_due();
  Outcome advance(Route&);
  void retry_later(Route&);
  double wait_s(Clock::time_point deadline) const;
  void poll_routes(Clock::time_point deadline);

  const MeetingPoint& point_;
  const PeerMessage& hello_;
  const int rank_;
  std::vector<Route> routes_;
  int known_ = 0;  // routes so far
  bool names_left_ = true;
  bool found_ = false;                    // rank 0 has authenticated, on the only route left
  std::vector<std::string> wrong_peers_;  // addresses at which another program answered
  std::vector<PeerMessage> answers_;
  NameLookup lookup_;
};

std::vector<std::string> Connector::add_numeric() {
  std::vector<std::string> names;
  for (const std::string& address : point_.addresses) {
    std::vector<Target> numeric = resolve(address, std::to_string(point_.port), AI_NUMERICHOST);
    if (numeric.empty()) names.push_back(address);
    for (Target& t : numeric) add(address, std::move(t));
  }
  return names;
}

void Connector::add(const std::string& name, Target where) {
  if (found_ || std::any_of(routes_.begin(), routes_.end(), [&](const Route& w) { return w.where == where; })) return;
  const double after_s = kBetweenRoutes * (static_cast<double>(routes_.size()) + jitter(rank_, known_, 0));
  routes_.push_back({name, std::move(where), known_++, later(Clock::now(), after_s)});
}

void Connector::retry_later(Route& w) {
  w.channel.reset();
  w.socket = FileDescriptor();
  const double longest_s = std::min(kFirstRetry * std::exp2(w.tries), kLongestRetry);
  w.next = later(Clock::now(), longest_s * (0.5 + 0.5 * jitter(rank_, w.number, ++w.tries)));
}

// Errors that a network may report while a thousand ranks connect at once.
bool is_temporary(int error) { return error == ECONNRESET || error == ETIMEDOUT || error == EHOSTUNREACH; }

void Connector::begin_due() {
  std::erase_if(routes_, [&](Route& w) {
    if (!w.waits() || Clock::now() < w.next) return false;
    w.socket = begin_connect(w.where);
    if (w.socket.get() >= 0) return false;
    if (!found_ && errno != EMFILE && errno != ENFILE && errno != EAGAIN) return true;
    retry_later(w);
    return false;
  });
}

// Advances a route whose descriptor is ready.
Connector::Outcome Connector::advance(Route& w) {
  if (!w.channel) {
    if (const int error = connect_error(w.socket.get()); error != 0)
      return found_ || is_temporary(error) ? Outcome::retry : Outcome::dead;
    w.channel = std::make_unique<PeerChannel>(std::move(w.socket), LifelineEnd::spoke, point_.token);
    w.channel->send(hello_);
    return Outcome::proceed;
  }
  std::vector<PeerMessage> messages;
  const PeerChannel::State state = w.channel->receive(messages);
  if (state == PeerChannel::State::unauthenticated) {
    wrong_peers_.push_back(w.name);
    return Outcome::dead;
  }
  if (!messages.empty() && messages.front().verb == "refused")
    throw InfrastructureError(fmt::format("rank 0 refused this rank: {}", messages.front().text(0)));
  if (!messages.empty() && messages.front().verb == "welcome") answers_ = std::move(messages);
  return state == PeerChannel::State::open || !answers_.empty() ? Outcome::proceed : Outcome::retry;
}

double Connector::wait_s(Clock::time_point deadline) const {
  Clock::time_point until = deadline;
  for (const Route& w : routes_) {
    if (w.waits()) until = std::min(until, w.next);
  }
  const double wait_s = std::clamp(std::chrono::duration<double>(until - Clock::now()).count(), 0.0, kLongestPollS);
  return names_left_ ? std::min(wait_s, kPollNames) : wait_s;
}

// Waits until a route is ready, and advances those that are.
void Connector::poll_routes(Clock::time_point deadline) {
  std::vector<pollfd> polled;  // a waiting route has descriptor -1, which poll() ignores
  for (const Route& w : routes_) polled.push_back({w.fd(), static_cast<short>(w.channel ? POLLIN : POLLOUT), 0});
  ::poll(polled.data(), polled.size(), static_cast<int>(std::ceil(wait_s(deadline) * 1000)));
  for (size_t i = routes_.size(); i-- > 0;) {
    if (polled[i].revents == 0) continue;
    Route& w = routes_[i];
    const Outcome done = advance(w);
    if (done == Outcome::proceed && w.channel->proven()) {  // `hello` must reach no other peer
      found_ = true;
      Route only = std::move(w);
      routes_.clear();
      routes_.push_back(std::move(only));
      return;
    }
    if (done == Outcome::retry) retry_later(w);
    if (done == Outcome::dead) routes_.erase(routes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Greeting Connector::run(double timeout_s) {
  const auto deadline = later(Clock::now(), std::min(timeout_s, kLongestPollS));
  while (Clock::now() < deadline) {
    for (NameLookup::Found& f : lookup_.take(names_left_)) add(f.name, std::move(f.where));
    if (routes_.empty() && !names_left_) break;
    begin_due();
    poll_routes(deadline);
    if (!answers_.empty()) return {std::move(routes_.front().channel), std::move(answers_)};
  }
  throw InfrastructureError(
      fmt::format("cannot reach rank 0 from host {}: tried port {} of {}{}", host_name(), point_.port,
                  fmt::join(point_.addresses, ", "),
                  wrong_peers_.empty()
                      ? ""
                      : fmt::format("; the peer at {} does not belong to this run", fmt::join(wrong_peers_, ", "))));
}

}  // namespace

std::string MeetingPoint::text() const {
  return fmt::format("{} {} {}", port, token.text(), fmt::join(addresses, " "));
}

MeetingPoint MeetingPoint::from_text(const std::string& text) {
  std::istringstream in(text);
  uint16_t port = 0;
  std::string token;
  in >> port >> token;
  MeetingPoint point{port, Token(token), {}};
  for (std::string a; in >> a;) point.addresses.push_back(a);
  return point;
}

double jitter(int rank, int route, int tries) {
  constexpr Philox::Key kLifeline{0x6c696665, 0x6c696e65};
  const Philox::Counter of{static_cast<uint32_t>(rank), static_cast<uint32_t>(route), static_cast<uint32_t>(tries), 0};
  return static_cast<double>(Philox::uniform(Philox::block(of, kLifeline)[0]));
}

Greeting connect(const MeetingPoint& point, const PeerMessage& hello, double timeout_s, int rank) {
  return Connector(point, hello, rank).run(timeout_s);
}

FormerPeer::FormerPeer(const PeerChannel& channel, const Token& token)
    : address_(sizeof(sockaddr_storage)), token_(token) {
  auto size = static_cast<socklen_t>(address_.size());
  if (::getpeername(channel.fd(), reinterpret_cast<sockaddr*>(address_.data()), &size) != 0) size = 0;
  address_.resize(size);
}

std::unique_ptr<PeerChannel> FormerPeer::connect(double timeout_s) const {
  if (address_.empty()) return nullptr;
  FileDescriptor s = begin_connect(address_);
  pollfd p{s.get(), POLLOUT, 0};
  if (s.get() < 0 || ::poll(&p, 1, static_cast<int>(std::ceil(timeout_s * 1000))) != 1 || connect_error(s.get()) != 0)
    return nullptr;
  return std::make_unique<PeerChannel>(std::move(s), LifelineEnd::spoke, token_);
}

}  // namespace fp
