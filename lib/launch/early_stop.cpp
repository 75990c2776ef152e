#include "launch/early_stop.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace fp {
namespace {

constexpr timespec kPollInterval{0, 10'000'000};  // how often a handler checks for a thread to end the run

// Handlers may only touch lock-free atomics and call async-signal-safe functions.
std::atomic<bool> stop_requested{false}, writes_message{false};
Interrupts interrupts;
std::atomic<int> waiter{-1};
std::atomic<int64_t> polls{0};

// Wakes the thread that ends the run. Returns false if there is none.
bool hand_over() {
  const int fd = waiter.load();
  const uint64_t one = 1;
  return fd >= 0 && ::write(fd, &one, sizeof(one)) == sizeof(one);
}

void on_stop_signal(int signal) {
  const int saved_errno = errno;
  stop_early();
  const Interrupts::Kind kind = signal == SIGINT ? interrupts.note() : Interrupts::Kind::first;
  if (kind == Interrupts::Kind::another) interrupt_by_default();
  if (kind != Interrupts::Kind::first) {
    errno = saved_errno;
    return;
  }
  for (int64_t poll = 0; !hand_over(); ++poll) {
    if (poll >= polls) ::_exit(static_cast<int>(ExitCode::interrupted));
    timespec left = kPollInterval;
    while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    interrupts.restart();
  }
  errno = saved_errno;
}

}  // namespace

EarlyStop::EarlyStop(std::chrono::milliseconds moment) {
  stop_requested = false;
  polls = std::chrono::nanoseconds(moment).count() / kPollInterval.tv_nsec;
  interrupts.forget();
  writes_message = log::rank() == 0;
  sigset_t all;
  sigfillset(&all);
  handlers_.emplace(on_stop_signal, all);
}

void EarlyStop::ignore_signals() { handlers_->ignore_for_good(); }

bool stopping_early() { return stop_requested.load(); }

void stop_early() {
  constexpr std::string_view text =
      "stopped with nothing to save; unless a rank reported an error, the same command continues the run\n";
  if (stop_requested.exchange(true) || !writes_message.load()) return;
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

void leave_early_stop_to(int eventfd) { waiter = eventfd; }

}  // namespace fp
