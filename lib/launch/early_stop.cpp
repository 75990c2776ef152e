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

constexpr timespec kLook{0, 10'000'000};  // how often a handler looks for someone to end the run

// Handlers may only touch lock-free atomics and call async-signal-safe functions.
std::atomic<bool> told{false}, speaks{false};
Interrupts interrupts;
std::atomic<int> awaiting{-1};
std::atomic<int64_t> looks{0};

// Whether there is someone to end the run.
bool hand_over() {
  const int fd = awaiting.load();
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
  for (int64_t look = 0; !hand_over(); ++look) {
    if (look >= looks) ::_exit(static_cast<int>(ExitCode::interrupted));
    timespec left = kLook;
    while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    interrupts.restart();
  }
  errno = saved_errno;
}

}  // namespace

EarlyStop::EarlyStop(std::chrono::milliseconds moment) {
  told = false;
  looks = std::chrono::nanoseconds(moment).count() / kLook.tv_nsec;
  interrupts.forget();
  speaks = log::rank() == 0;
  sigset_t all;
  sigfillset(&all);
  handlers_.emplace(on_stop_signal, all);
}

void EarlyStop::over() { handlers_->ignore_for_good(); }

bool stopping_early() { return told.load(); }

void stop_early() {
  constexpr std::string_view text = "told to stop while there is nothing to save; the same command goes on\n";
  if (told.exchange(true) || !speaks.load()) return;
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

void leave_early_stop_to(int eventfd) { awaiting = eventfd; }

}  // namespace fp
