#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <optional>

#include "base/error.h"
#include "report/signals.h"

using namespace fp;

namespace {

// The clock by which these tests distinguish interrupts.
std::atomic<int64_t> interrupt_ns{1};
int64_t test_ns() { return interrupt_ns; }

// Runs `body` in a child process and returns its wait status.
int status_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("each stop signal is recorded and the process continues") {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    const int status = status_of_child([&] {
      const StopSignals signals;
      if (stop_requested()) return 1;
      ::raise(signal);
      return stop_requested() && stop_signal() == signal ? 0 : 2;
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(signal_name(SIGINT) == "SIGINT");
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(SIGUSR1) == "SIGUSR1");
  CHECK(signal_name(SIGHUP) == "SIGHUP");
}

TEST_CASE("an ignored SIGHUP stays ignored, as under nohup") {
  const int status = status_of_child([] {
    ::signal(SIGHUP, SIG_IGN);
    const StopSignals signals;
    ::raise(SIGHUP);
    return stop_requested() ? 1 : 0;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a second SIGINT ends the process but one delivered twice at once does not") {
  const int status = status_of_child([] {
    Interrupts::use_clock(test_ns);
    const StopSignals signals;
    ::raise(SIGINT);
    if (stop_signal() != SIGINT) return 1;
    interrupt_ns += Interrupts::kRepetitionNs - 1;
    ::raise(SIGINT);  // as mpirun and the terminal both send one
    ++interrupt_ns;
    if (stop_signal() != SIGINT) return 2;
    ::raise(SIGINT);
    return 3;
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("of repeated SIGTERM and SIGUSR1 the first one is reported") {
  const int status = status_of_child([] {
    const StopSignals signals;
    ::raise(SIGUSR1);
    for (int i = 0; i < 3; ++i) ::raise(SIGTERM);
    ::raise(SIGINT);
    return stop_signal() == SIGUSR1 ? 0 : 1;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("former handlers are restored and a new StopSignals starts without a signal") {
  const int status = status_of_child([] {
    ::signal(SIGTERM, SIG_IGN);
    {
      const StopSignals signals;
      ::raise(SIGTERM);
      if (!stop_requested()) return 1;
    }
    ::raise(SIGTERM);  // ignored again
    const StopSignals again;
    return stop_requested() ? 2 : 0;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);

  const int died = status_of_child([] {
    { const StopSignals signals; }
    ::raise(SIGUSR1);
    return 0;
  });
  REQUIRE(WIFSIGNALED(died));
  CHECK(WTERMSIG(died) == SIGUSR1);
}

TEST_CASE("a second StopSignals object is refused while one exists") {
  const StopSignals signals;
  std::optional<StopSignals> second;
  CHECK_THROWS_AS(second.emplace(), InternalError);
}
