// Memory is honest: what a run was predicted to need is what it takes.
#include <catch2/catch.hpp>

#include "cli/workspace.h"
#include "support/skip.h"

using namespace fp::testing;

TEST_CASE("the resident peak is within 10% of the prediction", "[cli]") {
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
