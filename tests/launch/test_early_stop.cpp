#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "launch/early_stop.h"
#include "launch/member.h"

using namespace fp;

namespace {

using namespace std::chrono_literals;

// Longer than any test takes: a process that waits this long exceeds the test's time limit.
constexpr auto kForEver = std::chrono::milliseconds(24h);

// The clock that distinguishes interrupts in these tests.
std::atomic<int64_t> interrupt_ns{1};
int64_t test_ns() { return interrupt_ns; }

// Runs `body` in a child process, where signals have their normal effects, and returns its wait status.
int status_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) ::signal(signal, SIG_DFL);
    Interrupts::use_clock(test_ns);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("a stop signal before there is anything to save ends the process with 75") {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const int status = status_of_child([&] {
      const EarlyStop early(20ms);
      ::raise(signal);
      return 0;
    });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 75);
  }
}

TEST_CASE("a stop signal is handed to the waiting thread and a second SIGINT ends the process at once") {
  const int status = status_of_child([] {
    const EarlyStop early;
    const int wake = ::eventfd(0, EFD_NONBLOCK);
    leave_early_stop_to(wake);
    for (const int signal : {SIGTERM, SIGINT}) {
      uint64_t times = 0;
      ::raise(signal);
      if (!stopping_early() || ::read(wake, &times, sizeof(times)) != sizeof(times) || times != 1) return 1;
    }
    interrupt_ns += Interrupts::kRepetitionNs - 1;
    ::raise(SIGINT);  // as forwarded by mpirun after the terminal's
    ++interrupt_ns;
    uint64_t times = 0;
    if (::read(wake, &times, sizeof(times)) > 0) return 2;
    ::raise(SIGINT);
    return 3;
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGINT));
}

TEST_CASE("a SIGINT that was blocked while the handler waited counts as a repetition") {
  const int status = status_of_child([] {
    const EarlyStop early(kForEver);
    const int wake = ::eventfd(0, EFD_NONBLOCK);
    std::thread lifeline([&] {
      sigset_t all;
      sigfillset(&all);
      ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
      while (!stopping_early()) std::this_thread::yield();
      ::kill(::getpid(), SIGINT);
      leave_early_stop_to(wake);
    });
    ::raise(SIGINT);
    lifeline.join();
    return 7;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a lifeline that breaks during an early stop changes neither exit code nor log") {
  const int status = status_of_child([] {
    const EarlyStop early(kForEver);
    std::thread lifeline([] {
      while (!stopping_early()) std::this_thread::yield();
      log_error("never said");
      leave(1);
    });
    ::raise(SIGUSR1);
    lifeline.join();
    return 0;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 75);
}

TEST_CASE("signals have no effect once the work is done") {
  const int status = status_of_child([] {
    {
      EarlyStop early;
      early.ignore_signals();
      ::raise(SIGTERM);
    }
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) ::raise(signal);
    return 0;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("nested signal handlers take precedence and restore the former ones") {
  const int status = status_of_child([] {
    {
      const EarlyStop early;
      ::signal(SIGTERM, SIG_IGN);
      ::raise(SIGTERM);
      if (stopping_early()) return 1;
    }
    ::raise(SIGUSR1);
    return 2;
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1));
}
