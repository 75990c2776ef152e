#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <memory>

#include "io/filesystem.h"
#include "support/gate.h"
#include "support/temporary_folder.h"
#include "train/recorder.h"

using namespace fp;
using Catch::Contains;
using fp::test::Gate;
using fp::test::TemporaryFolder;

namespace {

constexpr double kForEver = 3600;

RunSpec quiet_spec() {
  RunSpec spec;
  spec.train.steps = 1000;
  spec.logging.report = false;
  spec.logging.console_every = 1000;
  return spec;
}

StepMetrics at_step(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 2;
  return m;
}

std::vector<int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<int64_t> steps;
  for_each_step(folder / "metrics.jsonl", [&](const StepMetrics& m) { steps.push_back(m.step); });
  return steps;
}

}  // namespace

TEST_CASE("steps continue while a disk hangs, and their metrics are written later") {
  const TemporaryFolder folder;
  const auto gate = std::make_shared<Gate>();
  Recorder recorder(quiet_spec(), folder.path, 0, {});
  recorder.write_beside("a file", [gate] { gate->pass(); });
  gate->await();
  for (int64_t step = 1; step <= 20; ++step) {
    recorder.step(at_step(step));
    recorder.report("running");
  }
  CHECK(steps_in(folder.path).empty());
  CHECK_FALSE(recorder.flush(0));
  gate->open();
  recorder.report("finished");
  recorder.finish(kForEver);
  REQUIRE(steps_in(folder.path).size() == 20);
  CHECK(steps_in(folder.path).back() == 20);
  CHECK_THAT(read_file(folder.path / "report.json"), Contains("\"finished\""));
}

TEST_CASE("metrics dropped while a disk hangs are reported afterwards") {
  const TemporaryFolder folder;
  const auto gate = std::make_shared<Gate>();
  Recorder recorder(quiet_spec(), folder.path, 0, {}, 5);
  recorder.write_beside("a file", [gate] { gate->pass(); });
  gate->await();
  for (int64_t step = 1; step <= 8; ++step) recorder.step(at_step(step));
  gate->open();
  REQUIRE(recorder.flush(kForEver));
  recorder.step(at_step(9));
  recorder.report("finished");
  recorder.finish(kForEver);
  CHECK(steps_in(folder.path) == std::vector<int64_t>{1, 2, 3, 4, 5, 9});
  CHECK_THAT(read_file(folder.path / "report.json"), Contains("3 lines from step 6 on are missing in metrics.jsonl"));
}

TEST_CASE("a write error is reported once and does not end the run") {
  const TemporaryFolder folder;
  Recorder recorder(quiet_spec(), folder.path, 0, {});
  for (int i = 0; i < 3; ++i) {
    recorder.write_beside("a file", [] { throw DataError("a-file: cannot write: No space left on device"); });
    REQUIRE(recorder.flush(kForEver));
  }
  recorder.report("finished");
  recorder.finish(kForEver);
  const std::string report = read_file(folder.path / "report.json");
  CHECK_THAT(report, Contains("No space left on device; training continues"));
  CHECK(report.find("No space left") == report.rfind("No space left"));
}

namespace {

// Returns the texts of the events in report.json after a run of 8 steps was left with this status and log, and resumed
// from step 5.
std::string events_after(const std::string& status, const std::string& log) {
  const TemporaryFolder folder;
  {
    Recorder recorder(quiet_spec(), folder.path, 0, {});
    for (int64_t step = 1; step <= 8; ++step) recorder.step(at_step(step));
    if (status == "failed") recorder.note(8, "the network is down");
    recorder.sample(4, "In the", " beginning");
    recorder.report(status);
    recorder.finish(kForEver);
  }
  fp::test::write_text(folder.path / "log.txt", log);
  Recorder recorder(quiet_spec(), folder.path, 5, {});
  recorder.report("finished");
  recorder.finish(kForEver);
  CHECK_THAT(read_file(folder.path / "report.json"), Contains(" beginning"));
  std::string text;
  for (const RunEvent& e : load_run_facts(folder.path).events) text += fmt::format("{}: {}\n", e.step, e.text);
  return text;
}

}  // namespace

TEST_CASE("a resumed run says in its report how the start before it ended") {
  CHECK(events_after("interrupted", "") == "");
  CHECK(events_after("failed", "") == "5: the start before this one ended after step 8 with: the network is down\n");
  CHECK(events_after("running", "2026-01-01T00:00:00Z step 8/10\n") ==
        "5: the start before this one left no message: it was killed, or its machine failed\n");
  CHECK(events_after("running",
                     "2026-01-01T00:00:00Z [rank 0] error: rank 2 (host vm, pid 7) is gone\n"
                     "2026-01-01T00:00:01Z [rank 1] error: the connection to rank 0 is closed\n"
                     "2026-01-01T00:00:02Z a line that has error: inside\n") ==
        "5: the start before this one ended with: rank 2 (host vm, pid 7) is gone\n");
}
