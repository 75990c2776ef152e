// Unused options are refused, commands log the effect of those they use, and outputs replace only files.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;

namespace {

// Checks that a command ends with code 2 and this message.
void refused(const std::vector<std::string>& arguments, const std::string& message) {
  const Outcome o = run(fptrain(arguments));
  CAPTURE(o.output);
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains(message));
}

}  // namespace

TEST_CASE("eval refuses the options of its other forms", "[cli]") {
  const auto refused_beside = [](std::vector<std::string> arguments, const std::string& option,
                                 const std::string& other) {
    arguments.insert(arguments.begin(), {"eval", "--checkpoint", "none"});
    const Outcome o = run(fptrain(arguments));
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(option) && Contains(other));
  };
  const std::string choices = "--multiple-choice";
  refused_beside({choices, "q.bin", "--samples", "1"}, "--samples", choices);
  refused_beside({choices, "q.bin", "--needle"}, "--needle", choices);
  refused_beside({"run.yaml", "--lengths", "64"}, "--lengths", "--needle");
  refused_beside({"run.yaml", "--needle", "--by-position"}, "--by-position", "--needle");
  refused_beside({"run.yaml", "--stride", "64"}, "--stride", "--by-position");
  refused_beside({"run.yaml", "--compare", "0-1,2-3"}, "--compare", "--by-position");
  refused_beside({"run.yaml", "--by-position", "--stride", "64", "--samples", "3"}, "--samples", "--stride");
  refused_beside({choices, "q.bin", "--set", "train.steps=1"}, "--set", "RUN.yaml");
  refused_beside({"run.yaml", choices, "q.bin"}, choices, "RUN.yaml");
  refused_beside({"run.yaml", "--device", "ref"}, "--device", "RUN.yaml");
  refused_beside({"run.yaml", "--rows", "4"}, "--rows", choices);
}

TEST_CASE("an unknown subcommand or option is refused with the nearest known ones", "[cli]") {
  refused({"trian", "run.yaml"}, "fptrain has no subcommand 'trian' (did you mean 'train'?); legal: train, submit, ");
  refused({"bench", "oi"}, "fptrain bench has no subcommand 'oi' (did you mean 'io'?); legal: ops, ");
  refused({"xyzzy"}, "fptrain has no subcommand 'xyzzy'; legal: ");
  refused({"train", "--explan", "run.yaml"}, "fptrain train has no option '--explan'");
  refused({"plan", "run.yaml", "--rank", "8"}, "fptrain plan has no option '--rank'; did you mean '--ranks'?");
  refused({"plan", "run.yaml", "--rank=8"}, "did you mean '--ranks'?");
  refused({"schedule", "--kind", "1f1b", "--stages", "0", "--microbatches", "8"}, "--stages");
  refused({}, "error: fptrain: A subcommand is required");
  refused({}, "Train the model of a run spec");  // the list of subcommands
  refused({"data"}, "Prepare");
  refused({"train"}, "error: fptrain train: RUN.yaml is required: run spec (YAML)");
  refused({"train", "run.yaml", "--set", "optimizer.lr", "3e-4"},
          "3e-4; --set takes key=value in one word: --set optimizer.lr=3e-4");
}

TEST_CASE("values of options are finite decimal numbers of their type, and paths are not empty", "[cli]") {
  const auto generate = [](const std::string& option, const std::string& value, const std::string& message) {
    refused({"generate", "--checkpoint", "none", option, value}, message);
  };
  generate("--temperature", "nan", "must be a number that is finite, not nan");
  generate("--top-p", "nan", "--top-p");
  generate("--seed", "-1", "must be a whole number from 0 to 18446744073709551615, not '-1'");
  generate("--seed", "18446744073709551616", "not '18446744073709551616'");
  generate("--seed", "", "not ''");
  generate("--max-tokens", "0x5", "not '0x5'");
  generate("--max-tokens", "010", "not '010'");
  generate("--temperature", "0x1", "not 0x1");
  generate("--threads", "100000", "--threads");
  for (const char* benchmark : {"ops", "io", "comm", "train", "offload", "overlap"})
    refused({"bench", benchmark, "--threads", "100000"}, "4096");
  refused({"probe", "--checkpoint", "none", "--batch", "none", "--out", "none", "--threads", "100000"}, "4096");
  refused({"data", "convert", "none", "--out", ""}, "must not be an empty path");
  refused({"data", "prepare", "none", "--out", "x", "--tokenizer", "bytes", "--max-document", "-1"}, "not '-1'");
  refused({"data", "key-values", "none", "--out", "x", "--lengths", "2000000000", "--samples", "1"}, "at most");
  refused({"data", "key-values", "none", "--out", "x", "--lengths", "1024", "--samples", "9000000000000000"},
          "at most");
}

TEST_CASE("generate logs which longrope factors it uses and why", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("phi3", "fp32");
  const Outcome trained =
      run(w.train(spec, "r",
                  {"--set", "train.steps=4", "--set", "eval.every=0", "--set", "model.rope.kind=longrope", "--set",
                   "model.rope.original_max_position=16", "--set", "model.rope.short_factor=[1, 1, 1, 1, 1, 1]",
                   "--set", "model.rope.long_factor=[1, 1.5, 2, 3, 4, 5]"}));
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  const auto said = [&](const std::string& option, const std::string& value) {
    return run(fptrain({"generate", "--checkpoint", w.run_directory("r").string(), "--prompt", "Verse", "--max-tokens",
                        "5", "--temperature", "0", option, value}))
        .output;
  };
  CHECK_THAT(said("--seed", "1"), Contains("longrope: short factors, as the context of 10 positions is within"));
  CHECK_THAT(said("--context", "17"), Contains("longrope: long factors, as the context of 17 positions is over"));
  CHECK_THAT(said("--context", "32"), !Contains("over model.max_position"));
  CHECK_THAT(said("--context", "33"), Contains("the context of 33 positions is over model.max_position = 32"));
  CHECK_THAT(run(fptrain({"generate", "--help"})).output, Contains("longrope"));
}

TEST_CASE("faults are injected only if the command line allows them", "[cli]") {
  const Workspace w;
  const std::filesystem::path spec = w.spec("gpt", "fp32");
  const std::string fault = "FPTRAIN_FAULT=rank=0,step=1,kind=throw";
  const auto started = [&](std::vector<std::string> command) {
    command.insert(command.begin(), {"/usr/bin/env", fault});
    return run(command);
  };
  const Outcome o = started(w.train(spec, "r"));
  CAPTURE(o.output);
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("FPTRAIN_FAULT='rank=0,step=1,kind=throw'") && Contains("--allow-faults"));
  CHECK_FALSE(std::filesystem::exists(w.run_directory("r")));
  const std::vector<std::string> more = {"--set", "train.steps=4", "--set", "eval.every=0", "--allow-faults"};
  CHECK(started(w.train(spec, "r", more)).code == 3);
  CHECK(run(w.train(spec, "s", more)).code == 0);  // allowed, but no fault is requested
  const Outcome submitted = started(fptrain({"submit", spec.string(), "--dry-run"}));
  CHECK(submitted.code == 2);
  CHECK_THAT(submitted.output, Contains("--allow-faults"));
  CHECK_THAT(started(fptrain({"submit", spec.string(), "--dry-run", "--allow-faults"})).output,
             Contains(" --allow-faults)\n"));
}

TEST_CASE("outputs do not replace devices, and are checked before the work", "[cli]") {
  const TemporaryFolder folder;
  const std::vector<std::string> schedule{"schedule", "--kind",         "1f1b", "--stages",
                                          "2",        "--microbatches", "4",    "--out"};
  const auto to = [&](const std::string& out) {
    std::vector<std::string> command = schedule;
    command.push_back(out);
    return run(fptrain(command));
  };
  const Outcome device = to("/dev/full");
  CHECK(device.code == 2);
  CHECK_THAT(device.output, Contains("--out /dev/full: is not a regular file"));
  std::filesystem::create_symlink(folder / "target", folder / "link");
  std::ofstream(folder / "target") << "old";
  CHECK(to((folder / "link").string()).code == 0);
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK_THAT(slurp(folder / "target"), Contains("1f1b"));
  const Outcome tokenizer = run(fptrain({"data", "train-tokenizer", "--vocab", "300", "--out",
                                         (folder / "missing/t.json").string(), (folder / "target").string()}));
  CHECK(tokenizer.code == 2);
  CHECK_THAT(tokenizer.output, Contains("the folder of --out"));
}

TEST_CASE("a full standard output ends a command with 3", "[cli]") {
  for (const std::string command : {"config schema", "schedule --kind 1f1b --stages 8 --microbatches 900 --csv"}) {
    const Outcome o = run({"/bin/sh", "-c", FP_EXECUTABLE " " + command + " >/dev/full"});
    CAPTURE(command, o.output);
    CHECK(o.code == 3);
    CHECK_THAT(o.output, Contains("cannot write to"));
  }
}

TEST_CASE("a full standard error costs lines there and not the run", "[cli]") {
  const Workspace w;
  std::vector<std::string> command{"/bin/sh", "-c", "exec \"$@\" 2>/dev/full", "sh"};
  const std::vector<std::string> train = w.train(w.spec("gpt", "fp32"), "r");
  command.insert(command.end(), train.begin(), train.end());
  CHECK(run(command).code == 0);
  CHECK_THAT(slurp(w.run_directory("r") / "log.txt"), Contains("step 20/20"));
}
