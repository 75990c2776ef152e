// Training that is stopped, killed and resumed must give the same results as uninterrupted training.
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "checkpoint/fixture.h"
#include "cli/workspace.h"
#include "io/lease.h"

using namespace fp::test;

namespace {

const std::string kLast = "step-00000020";

// Waits until the run has logged `steps` steps (or ended).
void wait_for_steps(Process& p, const std::filesystem::path& run_directory, int steps) {
  for (;;) {
    const std::string text = slurp(run_directory / "metrics.jsonl");
    if (std::count(text.begin(), text.end(), '\n') >= steps || !p.running()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool any_hidden(const std::filesystem::path& run_directory) {
  for (const auto& e : std::filesystem::directory_iterator(run_directory / "checkpoints"))
    if (e.path().filename().string().starts_with(".tmp-")) return true;
  return false;
}

// Stops the run while a checkpoint is being written; tries again with a later one if the stop came too late.
void stop_in_save(Process& p, const std::filesystem::path& run_directory) {
  while (p.running()) {
    if (any_hidden(run_directory)) {
      p.kill(SIGSTOP);
      if (!p.wait_until_stopped() || any_hidden(run_directory)) return;
      p.kill(SIGCONT);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("20 steps equal 10 steps, a stop, and 10 more", "[cli]") {
  const Workspace w;
  for (const std::string family : {"gpt", "llama", "phi3", "phi3small", "qwen3"})
    for (const std::string precision : {"bf16", "fp32"}) {
      CAPTURE(family, precision);
      const auto spec = w.spec(family, precision);
      const std::string whole = family + precision, parts = whole + "-parts";
      const Outcome a = run(w.train(spec, whole));
      CAPTURE(a.output);
      REQUIRE(a.code == 0);
      // A stop signal in the step after the tenth: state saved, exit 75, the same command finishes.
      Process p(with_fault("rank=0,step=10,phase=step,kind=stop", w.train(spec, parts)), w.root() / "out");
      REQUIRE(p.wait_until_stopped());
      p.kill(SIGTERM);
      p.kill(SIGCONT);
      const int code = p.wait();
      CAPTURE(p.output());
      REQUIRE(code == 75);
      CHECK(history(w.run_directory(parts)).size() < 20);
      const Outcome b = run(w.train(spec, parts));
      CAPTURE(b.output);
      REQUIRE(b.code == 0);
      CHECK(history(w.run_directory(whole)) == history(w.run_directory(parts)));
      CHECK(history(w.run_directory(whole)).size() == 20);
      CHECK(fingerprint(w.run_directory(whole) / "checkpoints" / kLast) ==
            fingerprint(w.run_directory(parts) / "checkpoints" / kLast));
      CHECK(run(fptrain({"checkpoint", "diff", (w.run_directory(whole) / "checkpoints" / kLast).string(),
                         (w.run_directory(parts) / "checkpoints" / kLast).string()}))
                .code == 0);
    }
}

TEST_CASE("a run resumes with another part of its state updated by the host and the same results", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "bf16");
  const auto share = [](const std::string& g) {
    return std::vector<std::string>{"--set", "memory.offload.optimizer=host",
                                    "--set", "memory.offload.device_share=" + g,
                                    "--set", "memory.offload.subgroup=2048"};
  };
  REQUIRE(run(w.train(spec, "device", {})).code == 0);
  Process p(with_fault("rank=0,step=10,phase=step,kind=stop", w.train(spec, "divided", share("0.75"))),
            w.root() / "out");
  REQUIRE(p.wait_until_stopped());
  p.kill(SIGTERM);
  p.kill(SIGCONT);
  REQUIRE(p.wait() == 75);
  REQUIRE(run(w.train(spec, "divided", share("0.25"))).code == 0);
  CHECK(history(w.run_directory("device")) == history(w.run_directory("divided")));
  CHECK(fingerprint(w.run_directory("device") / "checkpoints" / kLast) ==
        fingerprint(w.run_directory("divided") / "checkpoints" / kLast));
}

TEST_CASE("a run resumes with its weights in the other memory and the same results", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  const std::vector<std::string> stays = {"--set", "train.micro_batch=1"};
  std::vector<std::string> away = stays;
  for (const char* key : {"memory.offload.optimizer=host", "memory.offload.weights=host",
                          "memory.offload.device_share=0.5", "memory.offload.subgroup=2048"})
    away.insert(away.end(), {"--set", key});
  REQUIRE(run(w.train(spec, "device", stays)).code == 0);
  for (const bool first : {false, true}) {
    const std::string name = first ? "away first" : "away last";
    Process p(with_fault("rank=0,step=10,phase=step,kind=stop", w.train(spec, name, first ? away : stays)),
              w.root() / "out");
    REQUIRE(p.wait_until_stopped());
    p.kill(SIGTERM);
    p.kill(SIGCONT);
    REQUIRE(p.wait() == 75);
    REQUIRE(run(w.train(spec, name, first ? stays : away)).code == 0);
    CHECK(history(w.run_directory("device")) == history(w.run_directory(name)));
    CHECK(fingerprint(w.run_directory("device") / "checkpoints" / kLast) ==
          fingerprint(w.run_directory(name) / "checkpoints" / kLast));
  }
}

TEST_CASE("a run resumes with the optimizer's state in the other memory and the same results", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  const std::string kind = GENERATE("adamw", "muon");
  CAPTURE(kind);
  const std::vector<std::string> stays = {"--set", "optimizer.kind=" + kind};
  std::vector<std::string> offloads = stays;
  offloads.insert(offloads.end(), {"--set", "memory.offload.optimizer=host"});
  REQUIRE(run(w.train(spec, "device", stays)).code == 0);
  REQUIRE(run(w.train(spec, "host", offloads)).code == 0);
  for (const bool first : {false, true}) {
    const std::string name = first ? "to-device" : "to-host";
    Process p(with_fault("rank=0,step=10,phase=step,kind=stop", w.train(spec, name, first ? offloads : stays)),
              w.root() / "out");
    REQUIRE(p.wait_until_stopped());
    p.kill(SIGTERM);
    p.kill(SIGCONT);
    REQUIRE(p.wait() == 75);
    REQUIRE(run(w.train(spec, name, first ? stays : offloads)).code == 0);
  }
  for (const char* const other : {"host", "to-host", "to-device"}) {
    CAPTURE(other);
    CHECK(history(w.run_directory("device")) == history(w.run_directory(other)));
    CHECK(fingerprint(w.run_directory("device") / "checkpoints" / kLast) ==
          fingerprint(w.run_directory(other) / "checkpoints" / kLast));
  }
  const nlohmann::json memory = nlohmann::json::parse(slurp(w.run_directory("host") / "memory.json"))[0];
  CHECK(memory["host_arena_peak"] > 0);
  CHECK(memory["host_arena_peak"] == memory["predicted_host_arena"]);
  CHECK(memory["arena_peak"] <= memory["predicted_arena"]);
}

TEST_CASE("resuming from a chosen checkpoint repeats the steps after it", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  const std::string rounding = GENERATE("false", "true");
  CAPTURE(rounding);
  const std::vector<std::string> set = {"--set", "precision.stochastic_rounding=" + rounding};
  REQUIRE(run(w.train(spec, "a", set)).code == 0);
  const auto before = history(w.run_directory("a"));
  const auto print = fingerprint(w.run_directory("a") / "checkpoints" / kLast);
  const auto ten = w.run_directory("a") / "checkpoints" / "step-00000010";
  const Outcome o = run(w.train(spec, "b", {set[0], set[1], "--resume", ten.string()}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  const auto after = history(w.run_directory("b"));
  REQUIRE(after.size() == 10);
  for (const auto& [step, values] : after) CHECK(before.at(step) == values);
  CHECK(fingerprint(w.run_directory("b") / "checkpoints" / kLast) == print);
}

TEST_CASE("older checkpoints of a run resume without --hdf5 and those of other runs with it", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  REQUIRE(run(w.train(spec, "whole")).code == 0);
  const auto ten = w.run_directory("whole") / "checkpoints" / "step-00000010",
             twenty = w.run_directory("whole") / "checkpoints" / kLast;
  const auto print = fingerprint(twenty);
  fp::test::make_older(ten);
  std::filesystem::remove_all(twenty);
  const Outcome own = run(w.train(spec, "whole"));
  CAPTURE(own.output);
  CHECK(own.code == 0);
  CHECK_THAT(own.output,
             Catch::Contains("step-00000010: was saved by a version of fptrain that did not write index.bin"));
  CHECK(fingerprint(twenty) == print);

  const std::vector<std::vector<std::string>> others = {{"--resume", ten.string()},
                                                        {"--set", "model.init_from=" + ten.string()}};
  for (const std::vector<std::string>& other : others) {
    CAPTURE(other);
    const std::string name = other.front().substr(2);
    const Outcome refused = run(w.train(spec, name, other));
    CAPTURE(refused.output);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.output, Catch::Contains("add --hdf5"));
    const Outcome told = run(w.train(spec, name, {other[0], other[1], "--hdf5"}));
    CAPTURE(told.output);
    CHECK(told.code == 0);
  }
  CHECK(fingerprint(w.run_directory("resume") / "checkpoints" / kLast) == print);
}

TEST_CASE("a run that rounds offloaded weights stochastically resumes whatever the size of a subgroup", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  const auto to = [&](const std::string& name, const std::string& steps) {
    const Outcome o = run(w.train(spec, name,
                                  {"--set", "train.steps=" + steps, "--set", "schedule.kind=constant", "--set",
                                   "precision.stochastic_rounding=true", "--set", "memory.offload.optimizer=host",
                                   "--set", "memory.offload.subgroup=1500", "--set", "eval.every=0"}));
    CAPTURE(o.output);
    REQUIRE(o.code == 0);
  };
  to("whole", "12");
  to("parts", "7");
  to("parts", "12");
  CHECK(history(w.run_directory("whole")) == history(w.run_directory("parts")));
}

TEST_CASE("damaged metrics and report files do not prevent a resume", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  const auto folder = w.run_directory("r");
  const Outcome first = run(w.train(spec, "r"));
  CAPTURE(first.output);
  REQUIRE(first.code == 0);
  const std::string metrics = slurp(folder / "metrics.jsonl"), end = metrics.substr(metrics.size() / 2);
  std::ofstream(folder / "metrics.jsonl") << metrics << end.substr(end.find('\n') + 1);  // some steps twice
  std::ofstream(folder / "report.json") << "{\"name\": 3";
  const Outcome again = run(w.train(spec, "r"));
  CAPTURE(again.output);
  REQUIRE(again.code == 0);
  CHECK_THAT(again.output, Catch::Contains("metrics.jsonl.broken-1") && Catch::Contains("report.json.broken-1"));
  CHECK(slurp(folder / "metrics.jsonl") == metrics);
  CHECK_THAT(slurp(folder / "report.json"), Catch::Contains("metrics.jsonl.broken-1"));
}

TEST_CASE("a stalled run of one rank ends with 76 and a message", "[cli]") {
  const Workspace w;
  const Outcome o = run(with_fault("rank=0,step=3,phase=step,kind=sleep",
                                   w.train(w.spec("gpt", "fp32"), "r", {"--set", "watchdog.step_s=1"})));
  CAPTURE(o.output);
  CHECK(o.code == 76);
  CHECK_THAT(o.output, Catch::Contains("the run is stalled"));
}

TEST_CASE("stop signals save and end the run with 75", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    CAPTURE(signal);
    const std::string name = "signal" + std::to_string(signal);
    Process p(w.train(spec, name, {"--set", "train.steps=100000", "--set", "checkpoint.every=0"}), w.root() / "out");
    wait_for_steps(p, w.run_directory(name), 3);
    p.kill(signal);
    REQUIRE(p.wait() == 75);
    CHECK(checkpoints(w.run_directory(name)).size() == 1);
    CHECK(run(fptrain({"checkpoint", "verify", w.run_directory(name).string()})).code == 0);
  }
}

TEST_CASE("a run that has to stop is not evaluated, and one that is being evaluated stops", "[cli]") {
  const Workspace w;
  for (const std::string phase : {"step", "evaluation"}) {
    CAPTURE(phase);
    const std::string step = phase == "step" ? "10" : "11";  // counted from 0, or the steps done
    Process p(with_fault("rank=0,step=" + step + ",phase=" + phase + ",kind=stop",
                         w.train(w.spec("llama", "fp32"), phase, {"--set", "eval.every=11"})),
              w.root() / "out");
    REQUIRE(p.wait_until_stopped());
    p.kill(SIGTERM);
    p.kill(SIGCONT);
    const int code = p.wait();
    CAPTURE(p.output());
    REQUIRE(code == 75);
    CHECK(history(w.run_directory(phase)).size() == 11);
    CHECK_THAT(slurp(w.run_directory(phase) / "metrics.jsonl"), !Catch::Contains("val_loss"));
    CHECK(Catch::Contains("the evaluation was ended").match(p.output()) == (phase == "evaluation"));
    CHECK(run(w.train(w.spec("llama", "fp32"), phase, {"--set", "eval.every=11"})).code == 0);
  }
}

TEST_CASE("a run that lost its directory leaves the report of the run that took it over alone", "[cli]") {
  const Workspace w;
  const auto directory = w.run_directory("r");
  Process p(with_fault("rank=0,step=5,phase=step,kind=stop", w.train(w.spec("llama", "fp32"), "r")), w.root() / "out");
  REQUIRE(p.wait_until_stopped());
  std::ofstream(directory / "other") << fp::to_text(fp::LeaseHolder{"99", "node2", "", "", 7, 0, ""});
  std::filesystem::rename(directory / "other", directory / "run.lease");
  std::ofstream(directory / "report.json") << "of another run";
  p.kill(SIGCONT);
  const int code = p.wait();
  CAPTURE(p.output());
  CHECK(code == 76);
  CHECK_THAT(p.output(), Catch::Contains("no longer holds its folder"));
  CHECK(slurp(directory / "report.json") == "of another run");
  CHECK(checkpoints(directory).empty());
}

TEST_CASE("a run directory is locked by one run until that run is killed", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  Process first(with_fault("rank=0,step=5,phase=step,kind=stop", w.train(spec, "r")), w.root() / "out");
  REQUIRE(first.wait_until_stopped());
  const Outcome second = run(w.train(spec, "r"));
  CHECK(second.code == 3);
  CHECK_THAT(second.output, Catch::Contains("another run is using this folder (process "));
  first.kill(SIGKILL);
  first.wait();
  const Outcome third = run(w.train(spec, "r"));
  CAPTURE(third.output);
  CHECK(third.code == 0);
  CHECK_THAT(third.output, Catch::Contains("run.lease: taken over from process "));
  CHECK_FALSE(std::filesystem::exists(w.run_directory("r") / "run.lease"));
}

TEST_CASE("a corrupt checkpoint is skipped but one of a later format is not", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  REQUIRE(run(w.train(spec, "r")).code == 0);
  const auto directory = w.run_directory("r"), last = directory / "checkpoints" / kLast;
  const auto whole = history(directory);
  SECTION("saved wrong") {
    fp::test::alter_sealed(last);
    const Outcome o = run(w.train(spec, "r"));
    CAPTURE(o.output);
    CHECK(o.code == 0);
    CHECK_THAT(o.output, Catch::Contains("step-00000010") && Catch::Contains("was set aside as " + kLast + ".aside-1"));
    CHECK(checkpoints(directory) == std::vector<std::string>{"step-00000010", kLast, kLast + ".aside-1"});
    CHECK(history(directory) == whole);
  }
  SECTION("with a file that has another hash") {
    std::string text = slurp(last / "config.yaml");
    text[text.size() / 2] ^= 1;
    std::ofstream(last / "config.yaml") << text;
    const Outcome o = run(w.train(spec, "r"));
    CAPTURE(o.output);
    CHECK(o.code == 0);
    CHECK(checkpoints(directory) == std::vector<std::string>{"step-00000010", kLast, kLast + ".aside-1"});
    CHECK_THAT(slurp(directory / "report.json"), Catch::Contains("skipped a damaged checkpoint") &&
                                                     Catch::Contains("was set aside as " + kLast + ".aside-1"));
    CHECK(history(directory) == whole);
  }
  SECTION("of a later format") {
    fp::test::make_newer(last);
    const Outcome o = run(w.train(spec, "r"));
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output,
               Catch::Contains("is of format version 7, this program reads up to version 3: use the program that "
                               "saved it, fptrain") &&
                   Catch::Contains("/step-00000010 and --set run.directory=ANOTHER"));
    CHECK(checkpoints(directory) == std::vector<std::string>{"step-00000010", kLast});
  }
}

TEST_CASE("a run resumes bit-exactly from a checkpoint of format version 1", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  REQUIRE(run(w.train(spec, "r")).code == 0);
  const auto folder = w.run_directory("r") / "checkpoints";
  const auto last = fingerprint(folder / kLast);
  std::filesystem::remove_all(folder / kLast);
  fp::test::make_version_1(folder / "step-00000010");
  const Outcome o = run(w.train(spec, "r"));
  CAPTURE(o.output);
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Catch::Contains("resumed from") && Catch::Contains("step-00000010"));
  CHECK(fingerprint(folder / kLast) == last);
}

TEST_CASE("a run whose lease another host has taken ends without further writes", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  // With background saves nothing is saved before the stop, as such a save could be at any point then.
  for (const auto& [asynchronous, every] : {std::pair<std::string, std::string>{"true", "15"}, {"false", "5"}}) {
    CAPTURE(asynchronous);
    const std::string name = "r-" + asynchronous;
    const auto directory = w.run_directory(name);
    Process p(with_fault("rank=0,step=12,phase=step,kind=stop",
                         w.train(spec, name,
                                 {"--set", "checkpoint.asynchronous=" + asynchronous, "--set", "checkpoint.keep_last=1",
                                  "--set", "checkpoint.every=" + every})),
              w.root() / "out");
    REQUIRE(p.wait_until_stopped());
    const std::vector<std::string> before = checkpoints(directory);
    REQUIRE(before.size() == (asynchronous == "true" ? 0 : 1));
    const std::string other = to_text(fp::LeaseHolder{"another", "node2", "boot", "", 7, 8, ""});
    std::ofstream(directory / "run.lease") << other;
    p.kill(SIGCONT);
    CHECK(p.wait() == 76);
    CAPTURE(p.output());
    CHECK_THAT(p.output(), Catch::Contains("this run no longer holds its folder") &&
                               Catch::Contains("taken over by process 7 on node2"));
    CHECK(checkpoints(directory) == before);
    CHECK(slurp(directory / "run.lease") == other);
  }
}

namespace {

// Kills training repeatedly, every fifth time during a save.
void kill_and_resume(int kills) {
  const Workspace w;
  const auto spec = w.spec("gpt", "bf16");
  // Steps do not depend on the total number, which is never reached before a kill.
  const auto steps = [](int count, const std::string& every) {
    return std::vector<std::string>{"--set", fmt::format("train.steps={}", count), "--set", "schedule.kind=constant",
                                    "--set", "checkpoint.every=" + every,          "--set", "eval.every=0"};
  };
  const auto directory = w.run_directory("killed");
  std::mt19937 random(2026);
  int in_save = 0;
  for (int i = 0; i < kills; ++i) {
    const std::vector<std::string> before = checkpoints(directory);
    const bool save = i % 5 == 4;
    const auto command = w.train(spec, "killed", steps(100000, "1"));
    Process p(save ? with_fault("kind=slow,ms=20", command) : command, w.root() / "out");
    // Some steps after the first one of this start, at a moment inside a step or a save.
    const std::string text = slurp(directory / "metrics.jsonl");
    const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    wait_for_steps(p, directory, lines + 1 + static_cast<int>(random() % 4));
    if (save)
      stop_in_save(p, directory);
    else
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 12000));
    p.kill(SIGKILL);
    const int code = p.wait();
    CAPTURE(i, code, p.output());
    REQUIRE(code == 128 + SIGKILL);
    in_save += save && any_hidden(directory);
    for (const std::string& name : before) REQUIRE(std::filesystem::exists(directory / "checkpoints" / name));
    REQUIRE(checkpoints(directory).size() >= before.size());
  }
  CHECK(in_save == kills / 5);
  for (const std::string& name : checkpoints(directory))
    CHECK(run(fptrain({"checkpoint", "verify", (directory / "checkpoints" / name).string()})).code == 0);

  // The interrupted run equals an undisturbed one.
  const int last = history(directory).rbegin()->first + 4;
  REQUIRE(run(w.train(spec, "whole", steps(last, "0"))).code == 0);
  REQUIRE(run(w.train(spec, "killed", steps(last, "1"))).code == 0);
  CHECK(history(directory) == history(w.run_directory("whole")));
  const std::string name = fmt::format("step-{:08}", last);
  CHECK(fingerprint(directory / "checkpoints" / name) == fingerprint(w.run_directory("whole") / "checkpoints" / name));
}

}  // namespace

TEST_CASE("kill -9 at 10 moments, two of them in saves, loses no completed checkpoint", "[cli][slow]") {
  kill_and_resume(10);
}

TEST_CASE("kill -9 at 50 moments, ten of them in saves, loses no completed checkpoint", "[cli][nightly]") {
  kill_and_resume(50);
}
