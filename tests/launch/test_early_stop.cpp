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

// More than any test takes: whoever waits for it is ended by the test's time limit.
constexpr auto kForEver = std::chrono::milliseconds(24h);

// The time by which interrupts are told apart in these tests.
std::atomic<int64_t> interrupt_ns{1};
int64_t test_ns() { return interrupt_ns; }

// Runs `body` in a child process, where signals do what they do in a program; its wait status.
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

TEST_CASE("before there is anything to save, a signal to stop ends the process with 75") {
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

TEST_CASE("who waits for a signal is told, and a second SIGINT does not wait, unless it is the first again") {
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
    ::raise(SIGINT);  // as mpirun's comes beside the terminal's
    ++interrupt_ns;
    uint64_t times = 0;
    if (::read(wake, &times, sizeof(times)) > 0) return 2;
    ::raise(SIGINT);
    return 3;
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGINT));
}

TEST_CASE("a SIGINT held back while a handler waits for the end to be told is the first again") {
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

TEST_CASE("a lifeline that breaks while a rank is told to stop changes neither code nor log") {
  const int status = status_of_child([] {
    const EarlyStop early(kForEver);
    std::thread lifeline([] {
      while (!stopping_early()) std::this_thread::yield();
      say("never said");
      leave(1);
    });
    ::raise(SIGUSR1);
    lifeline.join();
    return 0;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 75);
}

TEST_CASE("when the work is done, signals change nothing until the process ends") {
  const int status = status_of_child([] {
    {
      EarlyStop early;
      early.over();
      ::raise(SIGTERM);
    }
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) ::raise(signal);
    return 0;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("handlers put over these go first, and those before come back") {
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
