// fptrain config on the command line: exit codes and output.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/process.h"

using fp::test::Outcome;
using fp::test::run_shell;

namespace {

namespace fs = std::filesystem;

Outcome config_command(const std::string& arguments) { return run_shell("'" FP_EXECUTABLE "' config " + arguments); }

struct ConfigFolder : fp::test::TemporaryFolder {
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("config check prints OK, or every problem with exit code 2", "[cli]") {
  const ConfigFolder folder;
  const std::string good = folder.write("good.yaml", "model: {preset: llama-3.2-1b}\n");
  const Outcome ok = config_command("check " + good);
  CHECK(ok.code == 0);
  CHECK(ok.output == good + ": OK\n");
  CHECK(config_command("check " + good + " --set train.steps=5 --set optimizer.lr=1e-4").code == 0);

  const Outcome bad =
      config_command("check " + folder.write("bad.yaml", "train: {steps: -1, batch: 3}\nmodel: {layers: many}\n"));
  CHECK(bad.code == 2);
  for (const char* part : {"3 problems", "bad.yaml:1:16: train.steps", "bad.yaml:1:20: unknown key 'train.batch'",
                           "bad.yaml:2:17: model.layers"})
    CHECK_THAT(bad.output, Catch::Contains(part));

  for (const auto& [set, part] :
       {std::pair<std::string, std::string>{"parallel.tensor=64", "more than model.heads = 32"},
        {"parallel.sequence=33", "more than the 32 attention heads"},
        {"parallel.cluster=nowhere", "there is no cluster description 'nowhere'"},
        {"parallel.pipeline.ranks=2 --set parallel.pipeline.layers=[1,2]", "gives 3 layers"}}) {
    const Outcome refused = config_command("check " + good + " --set " + set);
    CAPTURE(set, refused.output);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.output, Catch::Contains(part));
  }

  const Outcome set = config_command("check " + good + " --set optimizer.lr=fast");
  CHECK(set.code == 2);
  CHECK_THAT(set.output, Catch::Contains("--set optimizer.lr=fast: optimizer.lr"));
}

TEST_CASE("unreadable and malformed files end with exit code 2", "[cli]") {
  const ConfigFolder folder;
  for (const std::string& text : {std::string(),
                                  std::string("\x7f"
                                              "ELF\0\0",
                                              6),
                                  std::string(5000, '['), std::string("a: &a [*a]")}) {
    const Outcome o = config_command("check " + folder.write("run.yaml", text));
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Catch::Contains("run.yaml:1:"));
  }
  CHECK(config_command("check /nowhere/run.yaml").code == 2);
  CHECK(config_command("check /").code == 2);
  CHECK(config_command("check").code == 2);
  CHECK(config_command("frobnicate").code == 2);
}

TEST_CASE("config show prints the size of the model and a spec that parses", "[cli]") {
  const ConfigFolder folder;
  const Outcome shown = config_command("show --set model.preset=llama-2-70b --set data.seq_len=4096");
  REQUIRE(shown.code == 0);
  CHECK_THAT(shown.output, Catch::StartsWith("# 68,976,648,192 parameters\n"));
  CHECK_THAT(shown.output, Catch::Contains("\n  layers: 80\n") && Catch::Contains("\n  seq_len: 4096\n"));
  const std::string resolved = folder.write("resolved.yaml", shown.output);
  CHECK(config_command("show " + resolved).output == shown.output);
}

TEST_CASE("config schema, docs and presets print their documents", "[cli]") {
  const Outcome schema = config_command("schema");
  CHECK(schema.code == 0);
  CHECK(nlohmann::json::parse(schema.output).at("additionalProperties") == false);
  CHECK_THAT(config_command("docs").output, Catch::Contains("| `lr` | number |"));
  CHECK(config_command("docs optimizer.lr").output ==
        "optimizer.lr: number > 0, default 0.0006\n    Peak learning rate.\n");
  CHECK_THAT(config_command("docs data.train").output, Catch::Contains("data.train[].weight: number > 0, default 1\n"));
  const Outcome unknown = config_command("docs train.lr");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.output, Catch::Contains("there is no key 'train.lr'; did you mean 'optimizer.lr'?"));
  CHECK_THAT(config_command("presets").output, Catch::Contains("phi-3-small-8k") && Catch::Contains("7,392,272,384"));
}
