#include "launch/driven_clock.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>

#include "launch/channel.h"

namespace fp::test {
namespace {

constexpr double kPoll = 0.001;  // real seconds between two polls of the clock by a thread

int64_t to_ns(fp::MonotonicClock::Time t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

// Returns whether sent bytes are not acknowledged yet. Receivers are made to acknowledge at once.
bool under_way(const std::vector<int>& fds) {
  bool any = false;
  for (const int fd : fds) {
    const int yes = 1;
    int bytes = 0;
    ::setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof(yes));
    any |= ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
  }
  return any;
}

}  // namespace

DrivenClock::DrivenClock(DrivenTime& time, int process) : time_(time), process_(process) {
  slot().until_ns = WaitSlot::kRunning;
}

WaitSlot& DrivenClock::slot() {
  return time_.slots[static_cast<size_t>(process_)][std::this_thread::get_id() == main_ ? 0 : 1];
}

fp::MonotonicClock::Time DrivenClock::now() {
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::nanoseconds(time_.now_ns.load())));
}

std::vector<int> DrivenClock::wait_readable(const std::vector<int>& fds, Time until) {
  WaitSlot& s = slot();
  ++s.waits;
  s.until_ns = to_ns(until);
  for (double poll_s = 0;; poll_s = kPoll) {
    std::vector<int> ready = fp::wait_readable(fds, poll_s);
    if (!ready.empty() || time_.now_ns >= to_ns(until)) {
      s.until_ns = WaitSlot::kRunning;
      return ready;
    }
    if (!under_way(fds)) ++s.polls;
  }
}

std::thread DrivenClock::start(std::function<void()> body) {
  time_.slots[static_cast<size_t>(process_)][1].until_ns = WaitSlot::kRunning;
  return std::thread(std::move(body));
}

void DrivenClock::join(std::thread& thread) {
  WaitSlot& s = slot();
  ++s.waits;
  s.until_ns = WaitSlot::kJoining;
  thread.join();
  s.until_ns = WaitSlot::kRunning;
  time_.slots[static_cast<size_t>(process_)][1].until_ns = WaitSlot::kAbsent;
}

void DrivenClock::sleep_s(double seconds) {
  const Time until = after(seconds);
  while (now() < until) wait_readable({}, until);
}

void DrivenClock::sleep_for_ever() {
  for (;;) wait_readable({}, Time::max());
}

std::vector<TimeDriver::Seen> TimeDriver::seen(const std::vector<int>& takes_part) const {
  std::vector<Seen> list;
  for (const int process : takes_part)
    for (const WaitSlot& s : time_.slots[static_cast<size_t>(process)]) {
      const int64_t until = s.until_ns;
      if (until == WaitSlot::kAbsent && &s != time_.slots[static_cast<size_t>(process)].data()) continue;
      if (until <= time_.now_ns) return {};  // it is running, has not begun, or its wait is over
      list.push_back({&s, s.waits, s.polls});
    }
  return list;
}

void TimeDriver::poll(const std::vector<int>& takes_part) {
  const std::vector<Seen> now = seen(takes_part);
  const auto same_wait = [](const Seen& a, const Seen& b) { return a.slot == b.slot && a.waits == b.waits; };
  if (now.empty() || !std::equal(now.begin(), now.end(), before_.begin(), before_.end(), same_wait)) {
    before_ = now;
    quiet_rounds_ = 0;
    return;
  }
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].slot->until_ns != WaitSlot::kJoining && now[i].polls < before_[i].polls + 2) return;
  }
  before_ = now;
  // The first round proves that no message is in flight, the second that none had arrived when it began.
  if (++quiet_rounds_ < 2) return;
  quiet_rounds_ = 0;
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const Seen& s : now) first = std::min(first, s.slot->until_ns.load());
  if (first < WaitSlot::kJoining) time_.now_ns = first;  // else no thread waits for a time
  before_.clear();
}

}  // namespace fp::test
