// Training that is stopped, killed or resumed must be the training that was not.
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "cli/workspace.h"

using namespace fp::testing;

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

}  // namespace

TEST_CASE("20 steps equal 10 steps, a stop, and 10 more", "[cli]") {
  const Workspace w;
  for (const std::string family : {"gpt", "llama", "phi3", "phi3small"})
    for (const std::string precision : {"bf16", "fp32"}) {
      CAPTURE(family, precision);
      const auto spec = w.spec(family, precision);
      const std::string whole = family + precision, parts = whole + "-parts";
      const Outcome a = run(w.train(spec, whole));
      CAPTURE(a.output);
      REQUIRE(a.code == 0);
      // A stop signal while the run goes on to step 20: state saved at some step, exit 75, the same command finishes.
      Process p(w.train(spec, parts), w.root() / "out");
      wait_for_steps(p, w.run_directory(parts), 10);
      p.kill(SIGTERM);
      const int code = p.wait();
      CAPTURE(p.output());
      REQUIRE((code == 75 || code == 0));
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

TEST_CASE("resuming from a chosen checkpoint repeats what came after it", "[cli]") {
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

TEST_CASE("signals save and exit 75", "[cli]") {
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

TEST_CASE("kill -9 at 50 random moments loses no completed checkpoint", "[cli][slow]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "bf16");
  const std::vector<std::string> often = {"--set", "checkpoint.every=1", "--set", "train.steps=400",
                                          "--set", "eval.every=0"};
  const auto directory = w.run_directory("killed");
  std::mt19937 random(2026);
  int in_save = 0;
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::string> before = checkpoints(directory);
    Process p(w.train(spec, "killed", often), w.root() / "out");
    // Some steps after this life's first one, then a moment inside a step or a save.
    const std::string text = slurp(directory / "metrics.jsonl");
    const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    wait_for_steps(p, directory, lines + 1 + static_cast<int>(random() % 4));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 12000));
    const bool finished = !p.running();
    p.kill(SIGKILL);
    const int code = p.wait();
    CAPTURE(i, code, p.output());
    REQUIRE((code == 128 + SIGKILL || (finished && code == 0)));
    for (const auto& e : std::filesystem::directory_iterator(directory / "checkpoints"))
      in_save += e.path().filename().string().starts_with(".tmp-");
    for (const std::string& name : before) REQUIRE(std::filesystem::exists(directory / "checkpoints" / name));
    REQUIRE(checkpoints(directory).size() >= before.size());
  }
  CHECK(in_save > 0);  // some of the kills hit a save
  for (const std::string& name : checkpoints(directory))
    CHECK(run(fptrain({"checkpoint", "verify", (directory / "checkpoints" / name).string()})).code == 0);

  // What was cut to pieces is what an undisturbed run computes.
  const auto last = checkpoints(directory).back();
  REQUIRE(
      run(w.train(spec, "whole", {"--set", "checkpoint.every=0", "--set", "train.steps=400", "--set", "eval.every=0"}))
          .code == 0);
  REQUIRE(run(w.train(spec, "killed", often)).code == 0);
  CHECK(history(directory) == history(w.run_directory("whole")));
  CHECK(fingerprint(directory / "checkpoints" / "step-00000400") ==
        fingerprint(w.run_directory("whole") / "checkpoints" / "step-00000400"));
}
