// Tests of the time formats of squeue and sbatch (Slurm 22.05), and of the job clock with a simulated squeue.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "base/error.h"
#include "launch/slurm.h"

using namespace fp;
using namespace std::chrono_literals;

namespace {

Variables variables(const std::map<std::string, std::string>& values) {
  return [values](const char* name) {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

constexpr double kNow = 1.7e9;  // the present time of the clocks in these tests
double fixed_now() { return kNow; }

// A test that waits in vain exceeds its time limit.
void wait_until(const std::function<bool()>& good) {
  while (!good()) std::this_thread::sleep_for(1ms);
}

}  // namespace

TEST_CASE("a Slurm job is described by its variables") {
  CHECK(!slurm_job(variables({})));
  CHECK(!slurm_job(variables({{"SLURM_JOB_ID", ""}})));
  CHECK(slurm_job(variables({{"SLURM_JOB_ID", "12"}})) == SlurmJob{"12"});
  CHECK(slurm_job(variables({{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "3"}, {"SLURM_JOB_END_TIME", "99"}})) ==
        SlurmJob{"12", 3, 99.0});
  CHECK_THROWS_AS(slurm_job(variables({{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "many"}})), ConfigError);
}

TEST_CASE("the remaining time is parsed as squeue prints it") {
  CHECK(parse_time_left("0:45\n") == 45);
  CHECK(parse_time_left("0:00\n") == 0);
  CHECK(parse_time_left("5:00") == 300);
  CHECK(parse_time_left("59:59\n") == 3599);
  CHECK(parse_time_left("2:03:04\n") == 7384);
  CHECK(parse_time_left("  1-02:03:04\n") == 86400 + 7384);
  CHECK(parse_time_left("10:00\n20:00\n") == 600);  // a job array's own job comes first
  CHECK(parse_time_left("UNLIMITED\n") == HUGE_VAL);
  for (const char* none : {"", "\n", "NOT_SET", "INVALID", "12", "1-02", "1:2:3:4", "a:b", "-1:00", "1-2:3"})
    CHECK(!parse_time_left(none));
}

TEST_CASE("time limits are parsed as sbatch accepts them") {
  CHECK(parse_time_limit("30") == 1800);
  CHECK(parse_time_limit("30:15") == 1815);
  CHECK(parse_time_limit("1:30:15") == 5415);
  CHECK(parse_time_limit("1-6") == 30 * 3600);
  CHECK(parse_time_limit("1-6:30") == 30.5 * 3600);
  CHECK(parse_time_limit("1-6:30:30") == 30.5 * 3600 + 30);
  for (const char* forever : {"0", "UNLIMITED", "INFINITE"}) CHECK(parse_time_limit(forever) == HUGE_VAL);
  for (const char* none : {"", "soon", "1h", "-5", "1-", "1:2:3:4", "1.5"}) CHECK(!parse_time_limit(none));
}

TEST_CASE("a job clock polls squeue and keeps its last answer when that fails") {
  std::atomic<int> asked = 0;
  std::vector<std::string> command;
  const Ask ask = [&](const std::vector<std::string>& c, const auto&) -> std::optional<std::string> {
    if (asked == 0) command = c;
    switch (asked++) {
      case 0:
        return "UNLIMITED\n";
      case 1:
        return "10:00\n";
      default:
        return std::nullopt;
    }
  };
  const JobClock clock({"12", 0, {}}, ask, 1ms, fixed_now);
  wait_until([&] { return asked > 5; });
  CHECK(clock.left() == 600);
  CHECK(command == std::vector<std::string>{"squeue", "--noheader", "--jobs=12", "--format=%L"});
}

TEST_CASE("a job clock uses the job's own end time until squeue reports another") {
  std::atomic<bool> answer = false;
  const Ask ask = [&](const auto&, const auto&) -> std::optional<std::string> {
    return answer ? std::optional<std::string>("1:00\n") : std::nullopt;
  };
  const JobClock clock({"12", 0, kNow + 1000}, ask, 1ms, fixed_now);
  CHECK(clock.left() == 1000);
  answer = true;
  wait_until([&] { return clock.left() != 1000; });
  CHECK(clock.left() == 60);
  CHECK(JobClock(
            {"12", 0, {}}, [](const auto&, const auto&) { return std::nullopt; }, 1ms)
            .left() == HUGE_VAL);
}

TEST_CASE("the remaining time of a job decreases with the given clock") {
  std::atomic<double> now = kNow;
  const JobClock clock(
      {"12", 0, kNow + 1000}, [](const auto&, const auto&) { return std::nullopt; }, 1ms, [&] { return now.load(); });
  now = kNow + 400;
  CHECK(clock.left() == 600);
}

// A clock that wrongly waited here would wait for longer than any test may take.
TEST_CASE("a job clock is destroyed at once however long its polling interval is") {
  std::atomic<int> asked = 0;
  const Ask ask = [&](const auto&, const auto&) {
    ++asked;
    return std::nullopt;
  };
  {
    const JobClock clock({"12", 0, {}}, ask, 24h);
    wait_until([&] { return asked > 0; });
  }
  CHECK(asked == 1);
}

TEST_CASE("a job clock does not wait for a squeue that does not answer") {
  std::atomic<int> asked = 0, answered = 0;
  const Ask ask = [&](const auto&, const std::stop_token& stop) {
    ++asked;
    // Its own child keeps the pipes open for as long as it lives.
    const auto text = ask_program({"sh", "-c", "(while kill -0 $$; do sleep 0.1; done) & wait"}, stop, 24h);
    answered += text.has_value();
    return text;
  };
  {
    const JobClock clock({"12"}, ask);
    wait_until([&] { return asked > 0; });
  }
  CHECK(asked == 1);
  CHECK(answered == 0);
}
