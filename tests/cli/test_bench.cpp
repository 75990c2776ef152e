// fptrain bench: what it reports of a tiny model.
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "cli/workspace.h"

using namespace fp::testing;

namespace {

nlohmann::json bench(const std::string& what, const std::vector<std::string>& more) {
  std::vector<std::string> command = {"bench",
                                      what,
                                      "--json",
                                      "--device",
                                      "cpu",
                                      "--preset",
                                      "gpt-nano",
                                      "--batch",
                                      "1",
                                      "--seq-len",
                                      "16",
                                      "--threads",
                                      "1",
                                      "--set",
                                      "model.layers=1",
                                      "--set",
                                      "model.vocab=100",
                                      "--set",
                                      "model.hidden=32",
                                      "--set",
                                      "model.heads=2"};
  command.insert(command.end(), more.begin(), more.end());
  const TemporaryFolder folder;
  const Outcome o = run(fptrain(command));
  INFO(o.output);
  REQUIRE(o.code == 0);
  return nlohmann::json::parse(o.output.substr(o.output.find('{')));
}

}  // namespace

TEST_CASE("bench ops measures every op of the seam") {
  const nlohmann::json report = bench("ops", {"--repeats", "1", "--parameters", "1000"});
  std::vector<std::string> measured;
  for (const auto& row : report.at("ops")) {
    INFO(row.dump());
    CHECK(row.at("ms") > 0.0);
    CHECK(row.at("share") > 0.0);
    measured.push_back(row.at("op"));
  }
  CHECK(report.at("copy_gb_per_s") > 0.0);
  const std::string seam = slurp(std::filesystem::path(FP_SOURCE_DIR) / "lib/ops/ops.h");
  const std::regex op(R"(virtual void (\w+)\()");
  const std::set<std::string> no_work = {"reserve_scratch", "synchronize", "weights_changed"};
  int ops = 0;
  for (std::sregex_iterator it(seam.begin(), seam.end(), op), end; it != end; ++it) {
    const std::string name = (*it)[1];
    if (no_work.contains(name)) continue;
    INFO(name);
    CHECK(std::ranges::any_of(measured, [&](const std::string& m) { return m == name || m.starts_with(name + " "); }));
    ++ops;
  }
  CHECK(ops > 20);
}

TEST_CASE("bench train says MFU, of which peak, and the memory against its prediction") {
  const nlohmann::json report = bench("train", {"--steps", "2", "--warmup", "0"});
  CHECK(report.at("device") == "cpu");
  CHECK(report.at("peak_from") == "measured");
  const double flops = report.at("model_gflops_per_s"), peak = report.at("peak_gflops_per_s");
  CHECK(report.at("mfu").get<double>() == Approx(flops / peak));
  CHECK(report.at("predicted_bytes") > 0);
  CHECK(report.at("peak_bytes") > 0);
}
