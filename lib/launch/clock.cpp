#include "launch/clock.h"

#include "launch/channel.h"

namespace fp {
namespace {

class RealClock final : public MonotonicClock {
 public:
  Time now() override { return std::chrono::steady_clock::now(); }
  std::vector<int> wait_readable(const std::vector<int>& fds, Time until) override {
    return fp::wait_readable(fds, -seconds_since(until));
  }
  std::thread start(std::function<void()> body) override { return std::thread(std::move(body)); }
  void join(std::thread& thread) override { thread.join(); }
};

}  // namespace

MonotonicClock& real_clock() {
  static auto* const clock = new RealClock;  // threads that are never joined may outlive the end of main()
  return *clock;
}

}  // namespace fp
