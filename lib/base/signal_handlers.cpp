#include "base/signal_handlers.h"

#include <time.h>

#include <cerrno>

#include "base/error.h"

namespace fp {
namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t system_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::atomic<int64_t (*)()> interrupt_clock{system_ns};
static_assert(decltype(interrupt_clock)::is_always_lock_free);

int64_t now_ns() { return interrupt_clock.load()(); }

}  // namespace

SignalHandlers::SignalHandlers(void (*handler)(int), const sigset_t& blocked) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  action.sa_mask = blocked;
  for (size_t i = 0; i < kStopSignals.size(); ++i)
    FP_CHECK(::sigaction(kStopSignals[i], &action, &former_[i]) == 0, "sigaction {}: errno {}", kStopSignals[i], errno);
  for (size_t i = 0; i < kStopSignals.size(); ++i)
    if (kStopSignals[i] == SIGHUP && former_[i].sa_handler == SIG_IGN) ::sigaction(SIGHUP, &former_[i], nullptr);
}

SignalHandlers::~SignalHandlers() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) ::sigaction(kStopSignals[i], &former_[i], nullptr);
}

void SignalHandlers::ignore_for_good() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    ::signal(kStopSignals[i], SIG_IGN);
    former_[i] = {};
    former_[i].sa_handler = SIG_IGN;
  }
}

void Interrupts::use_clock(int64_t (*clock)()) { interrupt_clock = clock == nullptr ? system_ns : clock; }

Interrupts::Kind Interrupts::note() {
  int64_t first = 0;
  const int64_t now = now_ns();
  if (first_ns_.compare_exchange_strong(first, now)) return Kind::first;
  return now - first < kRepetitionNs ? Kind::repetition : Kind::another;
}

void Interrupts::restart() {
  if (first_ns_ != 0) first_ns_ = now_ns();
}

void interrupt_by_default() {
  ::signal(SIGINT, SIG_DFL);
  ::raise(SIGINT);
}

}  // namespace fp
