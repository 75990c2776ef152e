// fptrain train, generate and eval on the command line: files, exit codes and messages.
#include <catch2/catch.hpp>
#include <set>

#include "cli/workspace.h"
#include "support/private_mounts.h"
#include "support/skip.h"

using namespace fp::test;
using Catch::Contains;

TEST_CASE("a full disk at the last save ends the run with 3", "[cli]") {
  const Workspace w;
  const auto arguments = w.train(w.spec("llama", "fp32"), "r", {"--set", "checkpoint.every=0"});
  std::string command = "ulimit -f 40; exec";  // at most 40 blocks per file: writing the checkpoint fails
  for (const std::string& a : arguments) command += " '" + a + "'";
  const Outcome o = run({"/bin/bash", "-c", command});
  CAPTURE(o.output);
  CHECK(o.code == 3);
  CHECK_THAT(o.output, Contains("checkpoint of step 20 not saved") && Contains("cannot write"));
}

TEST_CASE("a read-only folder ends the start with 3 and the run can resume later", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  REQUIRE(run(w.train(spec, "r", {"--set", "train.steps=10"})).code == 0);
  const auto refused = [&](const std::filesystem::path& folder) {
    const ReadOnlyFolder disk(folder);
    return disk.read_only() ? run(w.train(spec, "r")) : Outcome{-1, ""};
  };
  for (const auto& folder : {w.run_directory("r") / "checkpoints", w.run_directory("r")}) {
    const Outcome o = refused(folder);
    if (o.code == -1) FP_SKIP("mounting takes rights this user lacks");
    CAPTURE(folder, o.output);
    CHECK(o.code == 3);
    CHECK_THAT(o.output, Contains(folder.string() + ": cannot use the ") && Contains("Read-only file system"));
  }
  const Outcome o = run(w.train(spec, "r"));
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Contains("resumed from") && Contains("step-00000010"));
}

TEST_CASE("a run writes checkpoints, metrics, report and log", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  const Outcome o = run(w.train(spec, "r", {"--set", "logging.report=true"}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  for (const char* file : {"config.yaml", "plan.txt", "metrics.jsonl", "log.txt", "report.html", "report.json"})
    CHECK(std::filesystem::exists(w.run_directory("r") / file));
  CHECK_THAT(slurp(w.run_directory("r") / "log.txt"), Contains("step 20/20"));
  const auto line = nlohmann::json::parse(slurp(w.run_directory("r") / "metrics.jsonl")
                                              .substr(0, slurp(w.run_directory("r") / "metrics.jsonl").find('\n')));
  for (const char* key : {"step", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "step_ms", "mfu", "peak_bytes",
                          "consumed_samples"})
    CHECK(line.contains(key));

  SECTION("generation is reproducible and streams the prompt first") {
    const auto command = fptrain({"generate", "--checkpoint", w.run_directory("r").string(), "--prompt", "Verse 7",
                                  "--max-tokens", "20", "--seed", "3", "--device", "cpu"});
    const Outcome a = run(command), b = run(command);
    REQUIRE(a.code == 0);
    CHECK_THAT(a.output, Catch::StartsWith("Verse 7"));
    CHECK(a.output.substr(0, 27) == b.output.substr(0, 27));
  }
  SECTION("evaluation of the checkpoint equals the run's last evaluation") {
    const Outcome e = run(
        fptrain({"eval", spec.string(), "--checkpoint", w.run_directory("r").string(), "--samples", "4", "--json"}));
    CAPTURE(e.output);
    REQUIRE(e.code == 0);
    const std::string text = slurp(w.run_directory("r") / "metrics.jsonl");
    const auto last = nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
    CHECK(nlohmann::json::parse(e.output).at("val_loss").get<double>() ==
          Approx(last.at("val_loss").get<double>()).epsilon(1e-8));
  }
  SECTION("a damaged checkpoint is named and skipped, or refused") {
    damage_tensors(w.run_directory("r") / "checkpoints" / "step-00000020", 0);
    const Outcome a = run(w.train(spec, "r"));
    CHECK(a.code == 0);
    CHECK_THAT(a.output, Contains("step-00000020") && Contains("resumed from") && Contains("step-00000010"));
    damage_tensors(w.run_directory("r") / "checkpoints" / "step-00000010", 0);
    const Outcome b =
        run(w.train(spec, "s", {"--resume", (w.run_directory("r") / "checkpoints" / "step-00000010").string()}));
    CHECK(b.code == 3);
    CHECK_THAT(b.output, Contains("rank-00000.h5: content differs"));
  }
  SECTION("other commands use the newest checkpoint, or an older one only if told") {
    const std::string directory = w.run_directory("r").string();
    const Outcome missing = run(w.train(spec, "s", {"--resume", directory + "/checkpoints/step-00000099"}));
    CHECK(missing.code == 3);
    CHECK_THAT(missing.output, Contains("step-00000099: no such folder; there are ") && Contains("step-00000020, "));
    const auto foreign = w.root() / "foreign";
    std::filesystem::create_directory(foreign);
    std::ofstream(foreign / "config.json") << "{}";
    const Outcome weights = run(w.train(spec, "s", {"--resume", foreign.string()}));
    CHECK(weights.code == 2);
    CHECK_THAT(weights.output, Contains("set model.init_from=" + foreign.string()));
    std::filesystem::resize_file(directory + "/checkpoints/step-00000020/rank-00000.h5", 1000);
    const auto with = [&](std::vector<std::string> command, const std::string& step_10) {
      const Outcome refused = run(fptrain(command));
      CAPTURE(refused.output);
      CHECK(refused.code == 3);
      CHECK_THAT(refused.output, Contains("step-00000020") && Contains("step-00000010, or add --allow-older"));
      command.emplace_back("--allow-older");
      const Outcome older = run(fptrain(command));
      CAPTURE(older.output);
      CHECK(older.code == 0);
      CHECK_THAT(older.output, Contains(step_10));
    };
    with({"generate", "--checkpoint", directory, "--prompt", "Verse", "--max-tokens", "4", "--device", "cpu"},
         "step 10: 5 prompt tokens");
    const Outcome exported = run(fptrain({"checkpoint", "export", directory, "--to", (w.root() / "out").string()}));
    CHECK(exported.code == 3);
    CHECK_THAT(exported.output, Contains("step-00000010, or add --allow-older"));
    with({"eval", spec.string(), "--checkpoint", directory, "--samples", "2"}, "step 10: loss");
  }
  SECTION("only incomplete files of fptrain itself are removed") {
    const auto directory = w.run_directory("r");
    const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1);
    const auto leave = [&](const std::string& name, std::filesystem::file_time_type time) {
      std::ofstream(directory / name) << "half";
      std::filesystem::last_write_time(directory / name, time);
    };
    for (const char* name : {"config.yaml.tmp.12", "report.html.tmp.7", "reference-scores-held-out.bin.tmp.1",
                             "notes.tmp.5", "my-config.yaml.tmp.1", "plan.txt.tmp.mine"})
      leave(name, old);
    leave("report.json.tmp.8", old + std::chrono::minutes(10));  // being written now
    const Outcome a = run(w.train(spec, "r"));
    CAPTURE(a.output);
    CHECK(a.code == 0);
    std::set<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      if (const std::string name = entry.path().filename().string(); name.find(".tmp.") != name.npos) left.insert(name);
    CHECK(left ==
          std::set<std::string>{"my-config.yaml.tmp.1", "notes.tmp.5", "plan.txt.tmp.mine", "report.json.tmp.8"});
  }
  SECTION("saves after a damaged newest checkpoint are kept even with keep_last 1") {
    damage_tensors(w.run_directory("r") / "checkpoints" / "step-00000020", 0);
    const Outcome a = run(w.train(
        spec, "r", {"--set", "checkpoint.keep_last=1", "--set", "checkpoint.every=2", "--set", "train.steps=15"}));
    CAPTURE(a.output);
    CHECK(a.code == 0);
    CHECK(checkpoints(w.run_directory("r")) == std::vector<std::string>{"step-00000015", "step-00000020.aside-1"});
    CHECK_THAT(run(w.train(spec, "r", {"--set", "train.steps=15"})).output, Contains("nothing is left to do"));
  }
  SECTION("a resume from an older checkpoint beside newer ones is refused") {
    const auto ten = w.run_directory("r") / "checkpoints" / "step-00000010";
    const Outcome a = run(w.train(spec, "r", {"--resume", ten.string()}));
    CHECK(a.code == 2);
    CHECK_THAT(a.output, Contains("holds newer checkpoints, up to step-00000020") && Contains("--resume auto"));
  }
  SECTION("a fresh start over checkpoints is refused") {
    const Outcome a = run(w.train(spec, "r", {"--resume", "none"}));
    CHECK(a.code == 2);
    CHECK_THAT(a.output, Contains("--resume none"));
  }
  SECTION("changed data is refused") {
    const Outcome a = run(w.train(spec, "r", {"--set", "run.seed=99", "--set", "train.steps=25"}));
    CHECK(a.code == 2);
    CHECK_THAT(a.output, Contains("run.seed") && Contains("--allow-data-change"));
    CHECK(run(w.train(spec, "r", {"--set", "run.seed=99", "--set", "train.steps=25", "--allow-data-change"})).code ==
          0);
  }
  SECTION("another model cannot resume the run") {
    const Outcome a = run(w.train(
        spec, "r",
        {"--set", "model.layers=3", "--resume", (w.run_directory("r") / "checkpoints" / "step-00000020").string()}));
    const std::string why =
        "step-00000020 holds another model than the run spec describes: model.layers: 3 here, 2 there;";
    CHECK(a.code == 2);
    CHECK_THAT(a.output, Contains(why) && !Contains("model.layers.2."));
    const Outcome b = run(w.train(spec, "r", {"--set", "model.layers=3"}));
    CHECK(b.code == 2);
    CHECK_THAT(b.output, Contains(why) && !Contains("model.layers.2.") && !Contains("step-00000010"));
  }
}

TEST_CASE("a diverging run stops with exit 4 and keeps its checkpoint, or skips", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  const std::vector<std::string> wild = {
      "--set", "optimizer.lr=1e38",  "--set", "optimizer.grad_clip=0", "--set", "schedule.warmup_steps=0",
      "--set", "checkpoint.every=1", "--set", "eval.every=0"};
  SECTION("stop") {
    const Outcome o = run(w.train(spec, "r", wild));
    CAPTURE(o.output);
    CHECK(o.code == 4);
    CHECK_THAT(o.output, Contains("first non-finite tensor") && Contains("layer") && Contains("is kept"));
    CHECK_FALSE(checkpoints(w.run_directory("r")).empty());
  }
  SECTION("skip, up to a limit") {
    auto skip = wild;
    skip.insert(skip.end(), {"--set", "train.nonfinite=skip", "--set", "train.nonfinite_limit=3"});
    const Outcome o = run(w.train(spec, "r", skip));
    CAPTURE(o.output);
    CHECK(o.code == 4);
    CHECK_THAT(o.output, Contains("update skipped") && Contains("train.nonfinite_limit = 3"));
  }
}

TEST_CASE("user mistakes end with the documented exit code and a message", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  const auto attempt = [&](const std::vector<std::string>& more) { return run(w.train(spec, "m", more)); };
  CHECK(attempt({"--set", "optimizer.lrr=1"}).code == 2);
  CHECK_THAT(attempt({"--set", "optimizer.lrr=1"}).output, Contains("lr"));
  CHECK(attempt({"--resume", (w.root() / "nowhere").string()}).code == 3);
  CHECK_THAT(attempt({"--resume", (w.root() / "nowhere").string()}).output, Contains("nowhere: no such folder"));
  CHECK(attempt({"--set", "model.vocab=100"}).code == 3);  // bytes have 257 ids
  CHECK(attempt({"--set", "data.seq_len=1000000", "--set", "model.max_position=1000000"}).code != 0);
  CHECK(run(fptrain({"train"})).code == 2);
  CHECK(run(fptrain({"train", (w.root() / "no.yaml").string()})).code == 2);
  CHECK(run(fptrain({"generate", "--checkpoint", w.root().string(), "--prompt", "x"})).code == 3);
  const Outcome readonly = run(w.train(spec, "m", {"--set", "run.directory=/proc/fptrain"}));
  CHECK(readonly.code == 3);
  CHECK_THAT(readonly.output, Contains("/proc/fptrain"));
}

TEST_CASE("a run directory that cannot be created is a configuration error", "[cli]") {
  const Workspace w;
  std::filesystem::create_directories(w.run_directory("r"));
  std::ofstream(w.run_directory("file")) << "in the way";
  std::ofstream(w.run_directory("r") / "checkpoints") << "in the way";
  const auto refused = [&](const std::filesystem::path& directory, const std::string& message) {
    const Outcome o = run(w.train(w.spec("llama", "fp32"), directory));
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(message) && Contains("Not a directory"));
  };
  refused("file/run", "cannot create the run directory: " + w.run_directory("file").string());
  refused("r", "cannot use the folder of checkpoints");
  CHECK(!std::filesystem::exists(w.run_directory("r") / "config.yaml"));
  const Outcome submitted = run(fptrain(
      {"submit", w.spec("llama", "fp32").string(), "--set", "run.directory=" + w.run_directory("file/run").string()}));
  CAPTURE(submitted.output);
  CHECK(submitted.code == 2);
  CHECK_THAT(submitted.output, Contains("cannot create the run directory: " + w.run_directory("file").string()));
}

TEST_CASE("two processes cannot train in one run directory", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  Process p(w.train(spec, "r", {"--set", "train.steps=100000"}), w.root() / "out");
  while (p.running() && !std::filesystem::exists(w.run_directory("r") / "metrics.jsonl")) ::usleep(1000);
  const Outcome second = run(w.train(spec, "r"));
  CHECK(second.code == 3);
  CHECK_THAT(second.output, Contains("another run"));
}
