// Predicted memory agrees with the memory that a run takes.
#include <catch2/catch.hpp>
#include <sstream>

#include "cli/workspace.h"
#include "support/skip.h"

using namespace fp::test;

TEST_CASE("the peak resident memory is within 10% of the prediction", "[cli]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  FP_SKIP("a sanitizer's own memory hides the program's");
#else
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  for (const std::string recompute : {"none", "full"}) {
    CAPTURE(recompute);
    const Outcome o = run(w.train(spec, recompute, {"--set", "memory.recompute=" + recompute,
                                                    "--set", "model.hidden=256",
                                                    "--set", "model.head_dim=64",
                                                    "--set", "model.ffn=1024",
                                                    "--set", "model.layers=6",
                                                    "--set", "data.seq_len=256",
                                                    "--set", "model.max_position=256",
                                                    "--set", "train.micro_batch=4",
                                                    "--set", "train.steps=3",
                                                    "--set", "checkpoint.every=0"}));
    CAPTURE(o.output);
    REQUIRE(o.code == 0);
    const auto facts = nlohmann::json::parse(slurp(w.run_directory(recompute) / "report.json"));
    const std::string text = slurp(w.run_directory(recompute) / "metrics.jsonl");
    const auto last = nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
    const double predicted = facts.at("predicted_peak_bytes"), measured = last.at("peak_bytes");
    CHECK(measured == Approx(predicted).epsilon(0.1));
  }
#endif
}

TEST_CASE("a run that does not fit is refused with the nearest plan that fits") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  FP_SKIP("a sanitizer's own memory hides the program's");
#else
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  // A memory limit under which a run that follows the advice must complete.
  const auto limited = [&](const std::string& name, const std::string& more) {
    std::string command = "ulimit -d 700000 && exec";
    for (const std::string& a : w.train(spec, name)) command += " '" + a + "'";
    for (const char* set : {"model.hidden=256", "model.head_dim=64", "model.ffn=1024", "model.layers=6",
                            "data.seq_len=256", "model.max_position=256", "train.micro_batch=64",
                            "train.global_batch=64", "train.steps=2", "schedule.warmup_steps=0", "eval.every=0"})
      command += std::string(" --set ") + set;
    return run({"/bin/sh", "-c", command + more});
  };
  const Outcome o = limited("refused", "");
  INFO(o.output);
  REQUIRE(o.code == 2);
  CHECK_THAT(o.output, Catch::Contains("this run needs") && Catch::Contains("mostly activations") &&
                           Catch::Contains("GiB too few"));
  CHECK_FALSE(std::filesystem::exists(w.run_directory("refused")));
  const std::string before = "nearest plan that fits:";
  const size_t at = o.output.find(before);
  REQUIRE(at != std::string::npos);
  std::istringstream keys(o.output.substr(at + before.size(), o.output.find('\n', at) - at - before.size()));
  std::string sets;
  for (std::string key; keys >> key;) sets += " --set " + key;
  REQUIRE_FALSE(sets.empty());
  const Outcome fits = limited("fits", sets);
  INFO(sets << "\n" << fits.output);
  CHECK(fits.code == 0);
#endif
}
