#include "report/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/error.h"
#include "base/log.h"

namespace fp {
namespace {

// Handlers may only touch lock-free atomics and call async-signal-safe functions.
static_assert(std::atomic<int>::is_always_lock_free);
std::atomic<int> first_signal{0};
Interrupts interrupts;
std::atomic<bool> installed{false};
std::atomic<bool> talk{false};

void on_signal(int signal) {
  const int saved_errno = errno;
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (signal == SIGINT) {
    const Interrupts::Kind kind = interrupts.note();
    if (kind == Interrupts::Kind::another) {
      interrupt_by_default();
    } else if (kind == Interrupts::Kind::first && talk.load()) {
      constexpr std::string_view text =
          "\r\x1b[Kfinishing this step, then saving; press Ctrl-C again to stop at once\n";
      [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    }
  }
  errno = saved_errno;
}

}  // namespace

StopSignals::StopSignals() {
  FP_CHECK(!installed.exchange(true), "stop signals are handled already");
  first_signal = 0;
  interrupts.forget();
  talk = log::stderr_is_terminal();
  sigset_t none;
  sigemptyset(&none);
  handlers_.emplace(on_signal, none);
}

StopSignals::~StopSignals() {
  handlers_.reset();
  installed = false;
}

int stop_signal() { return first_signal.load(std::memory_order_relaxed); }

std::string_view signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "signal";
  }
}

}  // namespace fp
