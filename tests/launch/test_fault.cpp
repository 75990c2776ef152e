#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "launch/fault.h"

using namespace fp;
using Catch::Contains;

namespace {

// Runs a process that calls maybe_fault for rank 3 with FPTRAIN_FAULT set, and returns its wait status (WUNTRACED).
int status_with(const char* fault, int64_t step, const std::string& phase) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv("FPTRAIN_FAULT", fault, 1);
    allow_faults();
    // Ends a sleep; any other fault comes sooner, however busy the machine.
    ::alarm(std::string_view(fault).ends_with("kind=sleep") ? 1 : 600);
    try {
      maybe_fault(3, step, phase);
    } catch (const DataError&) {
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return status;
}

}  // namespace

TEST_CASE("a fault is parsed from text") {
  CHECK(parse_fault("rank=3,step=5,phase=save,kind=kill") == Fault{3, 5, "save", Fault::Kind::kill});
  CHECK(parse_fault("kind=throw,rank=0,step=0") == Fault{0, 0, "step", Fault::Kind::raise});
  CHECK(parse_fault("kind=slow,ms=20") == Fault{0, 0, "step", Fault::Kind::slow, 20});
  const Fault flip = parse_fault("rank=1,step=7,kind=flip,what=sums,element=12,bit=3");
  CHECK((flip.kind == Fault::Kind::flip && flip.what == "sums" && flip.element == 12 && flip.bit == 3));
  const Fault outlier = parse_fault("kind=outlier,what=h.0.attn.c_attn.weight,element=12,factor=1e4");
  CHECK((outlier.kind == Fault::Kind::outlier && outlier.what == "h.0.attn.c_attn.weight" && outlier.factor == 1e4));
  for (const char* wrong : {"kind=outlier,factor=2",
                            "kind=outlier,what=a",
                            "kind=outlier,what=a,factor=0",
                            "kind=outlier,what=a,factor=inf",
                            "kind=outlier,what=a,factor=2,rank=1",
                            "kind=outlier,what=a,factor=2,bit=1",
                            "rank=1,step=7,kind=kill,factor=2",
                            "rank=1,step=7,kind=flip",
                            "rank=1,step=7,kind=flip,what=all",
                            "rank=1,step=7,kind=flip,what=sums,bit=32",
                            "rank=1,step=7,kind=kill,what=sums",
                            "rank=1,step=7,kind=flip,what=sums,phase=save",
                            "",
                            "rank=3",
                            "rank=3,step=5",
                            "rank=3,step=5,kind=explode",
                            "rank=-1,step=5,kind=kill",
                            "rank=3,step=5x,kind=kill",
                            "rank=3,step=5,kind=kill,when=now",
                            "rank,step=5,kind=kill",
                            "kind=slow",
                            "kind=slow,ms=20,rank=3",
                            "kind=slow,ms=-1",
                            "rank=3,step=5,kind=kill,ms=20"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_fault(wrong), ConfigError);
    CHECK_THROWS_WITH(parse_fault(wrong), Contains("kind=throw|sleep|kill|stop"));
  }
}

TEST_CASE("a fault happens on its rank at its step and phase only") {
  CHECK(WEXITSTATUS(status_with("rank=3,step=5,kind=throw", 5, "step")) == 3);
  for (const auto& [fault, step, phase] :
       {std::tuple("rank=3,step=5,kind=throw", 4, "step"), std::tuple("rank=3,step=5,kind=throw", 5, "save"),
        std::tuple("rank=2,step=5,kind=throw", 5, "step"), std::tuple("", 5, "step")}) {
    const int status = status_with(fault, step, phase);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}

TEST_CASE("a fault that the command line does not allow is refused and not injected") {
  for (const char* fault : {"rank=3,step=5,kind=throw", "nonsense"}) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::setenv("FPTRAIN_FAULT", fault, 1);
      maybe_fault(3, 5, "step");
      bool refused = false;
      try {
        check_fault_request();
      } catch (const ConfigError& e) {
        refused = std::string_view(e.what()).find("--allow-faults is not given") != std::string_view::npos;
      }
      ::unsetenv("FPTRAIN_FAULT");
      check_fault_request();
      ::_exit(refused ? 7 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  }
}

TEST_CASE("a slow disk is not a fault of one rank") {
  for (const char* fault : {"kind=slow,ms=20", ""}) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::setenv("FPTRAIN_FAULT", fault, 1);
      allow_faults();
      maybe_fault(0, 0, "step");
      ::_exit(static_cast<int>(slow_disk().count()));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == (*fault == '\0' ? 0 : 20)));
  }
}

TEST_CASE("faults kill, stop and sleep a process") {
  const int killed = status_with("rank=3,step=5,phase=save,kind=kill", 5, "save");
  CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL));
  const int stopped = status_with("rank=3,step=5,kind=stop", 5, "step");
  CHECK((WIFSTOPPED(stopped) && WSTOPSIG(stopped) == SIGSTOP));
  const int slept = status_with("rank=3,step=5,kind=sleep", 5, "step");
  CHECK((WIFSIGNALED(slept) && WTERMSIG(slept) == SIGALRM));
}
