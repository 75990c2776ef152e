// fptrain plan on a cluster: messages, --json, exit codes; and fptrain train with open keys.
#include <catch2/catch.hpp>
#include <sstream>

#include "cli/workspace.h"

using namespace fp::test;
using Json = nlohmann::json;

namespace {

constexpr const char* kSpec =
    "model: {layers: 4, hidden: 128, heads: 4, vocab: 512, max_position: 128}\n"
    "data: {seq_len: 128}\n"
    "train: {global_batch: 8, micro_batch: 2}\n";

std::string spec_file(const TemporaryFolder& folder, const std::string& more) {
  const auto file = folder.path / "run.yaml";
  std::ofstream(file) << kSpec << more;
  return file.string();
}

// Extracts the JSON object, since log lines go to the same file.
Json object_of(const std::string& output) {
  return Json::parse(output.substr(output.find('{'), output.rfind('}') + 1 - output.find('{')));
}

}  // namespace

TEST_CASE("plan predicts the time of a step on a cluster", "[cli][plan]") {
  const TemporaryFolder folder;
  const std::string spec = spec_file(folder, "parallel: {data: 2}\n");
  const Outcome text = run(fptrain({"plan", spec, "--cluster", "dgx-a100"}));
  INFO(text.output);
  CHECK(text.code == 0);
  for (const char* part :
       {"memory of rank 0", "fits\n", "compute", "exposed communication", "bubble", "update", "tokens a second", "MFU",
        "less 5 % headroom", "1,000 steps: ", " GPU hours", "rates of dgx-a100: data sheets", "not measured"})
    CHECK_THAT(text.output, Catch::Contains(part));
  CHECK(text.output.find(" \n") == std::string::npos);

  const Outcome o = run(fptrain({"plan", spec, "--cluster", "dgx-a100", "--json"}));
  INFO(o.output);
  REQUIRE(o.code == 0);
  const Json j = object_of(o.output);
  CHECK(j["plan"]["dp"] == 2);
  CHECK(j["plan"]["tp"] == 1);
  CHECK(j["plan"]["microbatch"] == 2);
  CHECK(j["plan"]["recompute"] == "none");
  CHECK(j["fits"] == true);
  CHECK(j["step_time_s"].get<double>() > 0);
  CHECK(j["tokens_per_s"].get<double>() * j["step_time_s"].get<double>() == Approx(8 * 128));
  CHECK(j["mfu"].get<double>() > 0);
  CHECK(j["model_tflops_per_device"].get<double>() > 0);
  CHECK(j["memory"].contains("peak_bytes"));
  CHECK(j["alternatives"].empty());
}

TEST_CASE("plan names the data degree that parallel.data: 0 leaves to the number of ranks", "[cli][plan]") {
  const TemporaryFolder folder;
  const Outcome o = run(fptrain(
      {"plan", spec_file(folder, "parallel: {data: 0, tensor: 2}\n"), "--cluster", "dgx-a100", "--ranks", "4"}));
  INFO(o.output);
  CHECK_THAT(o.output, Catch::Contains("4 ranks: data 2 x tensor 2"));
}

TEST_CASE("the lines of predicted memory add up, and headroom decides what fits", "[cli][plan]") {
  const TemporaryFolder folder;
  const std::string spec = spec_file(folder, "parallel: {data: 2}\n");
  const Outcome text = run(fptrain({"plan", spec, "--cluster", "dgx-a100", "--headroom", "10"}));
  INFO(text.output);
  CHECK_THAT(text.output, Catch::Contains("less 10 % headroom") && Catch::Contains("runtime and buffers"));
  std::istringstream lines(text.output.substr(text.output.find("GiB\n") + 4));
  long sum = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string digits = line.substr(28, 12);  // the decimals are those of the total
    const long value = std::stol(std::string(digits).erase(digits.find('.'), 1));
    if (line.starts_with("  all it needs")) {
      CHECK(sum == value);
      break;
    }
    sum += value;
  }
  const Outcome full = run(fptrain({"plan", spec, "--cluster", "dgx-a100", "--headroom", "99.9%"}));
  CHECK(full.code == 2);
  CHECK_THAT(full.output, Catch::Contains("this run does not fit"));
  CHECK_THAT(run(fptrain({"plan", spec, "--cluster", "dgx-a100", "--headroom", "5GiB"})).output,
             Catch::Contains("--headroom 5GiB; legal: a percentage"));
  CHECK_THAT(run(fptrain({"plan", spec, "--headroom", "5%"})).output, Catch::Contains("--headroom needs a cluster"));
}

TEST_CASE("a run spec without a plan is planned for several ranks", "[cli][plan]") {
  const TemporaryFolder folder;
  const std::string spec = spec_file(folder, "");
  const Outcome o = run(fptrain({"plan", spec, "--ranks", "4", "--cluster", "dgx-a100", "--seconds", "2"}));
  INFO(o.output);
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Catch::Contains("as with --set parallel=auto") && Catch::Contains("chosen: "));
  const Outcome divided = run(fptrain({"plan", spec, "--ranks", "4", "--set", "parallel.data=2"}));
  CHECK(divided.code == 2);
  CHECK_THAT(divided.output, Catch::Contains("plan it with --ranks 2") && !Catch::Contains("mpirun"));
  const Outcome written = run(fptrain({"plan", spec, "--ranks", "13", "--cluster", "dgx-a100"}));
  CHECK_THAT(written.output, Catch::Contains("train.micro_batch = 2 is written: without it, the planner chooses it"));
}

TEST_CASE("plan without a cluster predicts memory and explains how to get times", "[cli][plan]") {
  const TemporaryFolder folder;
  const std::string spec = spec_file(folder, "run: {device: cpu}\n");
  CHECK_THAT(run(fptrain({"plan", spec})).output, Catch::Contains("--cluster FILE or parallel.cluster"));
  const Outcome o = run(fptrain({"plan", spec, "--json"}));
  INFO(o.output);
  REQUIRE(o.code == 0);
  const Json j = object_of(o.output);
  for (const char* key : {"step_time_s", "tokens_per_s", "mfu", "model_tflops_per_device"}) CHECK(j[key].is_null());
  CHECK(j["memory"]["peak_bytes"].get<double>() > 0);
  CHECK(j["memory"]["optimizer"].get<double>() > 0);
  CHECK(j["fits"] == true);
}

TEST_CASE("plan chooses the open keys of a spec", "[cli][plan]") {
  const TemporaryFolder folder;
  const std::string spec = spec_file(folder, "parallel: {auto: [all], cluster: dgx-a100}\n");
  const Outcome text = run(fptrain({"plan", spec, "--ranks", "4"}));
  INFO(text.output);
  CHECK(text.code == 0);
  CHECK_THAT(text.output,
             Catch::Contains("arrangements") && Catch::Contains("chosen: ") && Catch::Contains("% slower"));
  const Outcome o = run(fptrain({"plan", spec, "--ranks", "4", "--json", "--set", "parallel.tensor=2"}));
  INFO(o.output);
  REQUIRE(o.code == 0);
  const Json j = object_of(o.output);
  const Json& p = j["plan"];
  CHECK(p["tp"] == 2);
  CHECK(p["microbatch"] == 2);  // written in the spec
  CHECK(p["tp"].get<int>() * p["pp"].get<int>() * p["sp"].get<int>() * p["dp"].get<int>() == 4);
  REQUIRE(!j["alternatives"].empty());
  for (const Json& a : j["alternatives"]) CHECK((a.contains("plan") && a.contains("fits") && a["why"] != ""));
}

TEST_CASE("a budget of memory chooses a plan, and the dial shows what each GiB costs", "[cli][plan]") {
  const TemporaryFolder folder;
  const auto file = folder.path / "run.yaml";
  std::ofstream(file) << "model: {preset: llama-3.2-1b}\ndata: {seq_len: 4096}\n"
                         "train: {global_batch: 8, micro_batch: 1}\n"
                         "memory: {device_gib: 12, host_gib: 40}\nparallel: {cluster: dgx-h100}\n";
  const Outcome text = run(fptrain({"plan", file.string()}));
  INFO(text.output);
  REQUIRE(text.code == 0);
  for (const char* part : {"plans by device memory", "ms/GiB", "no savings (does not fit)",
                           "memory.offload.optimizer=host", "(chosen)", "fits\n"})
    CHECK_THAT(text.output, Catch::Contains(part));

  const Json j = object_of(run(fptrain({"plan", file.string(), "--json"})).output);
  CHECK(j["fits"] == true);
  const Json& dial = j["dial"];
  REQUIRE(dial.size() > 3);
  int chosen = 0;
  for (size_t i = 0; i < dial.size(); ++i) {
    const auto of = [&](size_t row, const char* key) { return dial[row][key].get<double>(); };
    CHECK((of(i, "device_bytes") <= 12.0 * (1 << 30)) == dial[i]["fits"].get<bool>());
    CHECK(of(i, "host_bytes") <= 40.0 * (1 << 30));
    if (dial[i]["chosen"] == true) {
      ++chosen;
      CHECK(dial[i]["fits"] == true);
      CHECK((i == 0 || dial[i - 1]["fits"] == false));
      CHECK(dial[i]["plan"] == j["plan"]);
    }
    CHECK(dial[i]["ms_per_gib"].is_null() == (i == 0));
    if (i == 0) continue;
    const double gib = (of(i - 1, "device_bytes") - of(i, "device_bytes")) / (1 << 30),
                 ms = 1000 * (of(i, "step_time_s") - of(i - 1, "step_time_s"));
    CHECK(gib > 0);
    CHECK(ms > 0);
    CHECK(of(i, "ms_per_gib") == Approx(ms / gib));
  }
  CHECK(chosen == 1);

  const auto refused = [&](const std::string& set) {
    const Outcome o = run(fptrain({"plan", file.string(), "--set", set}));
    INFO(o.output);
    CHECK(o.code == 2);
    return o.output;
  };
  CHECK_THAT(refused("memory.device_gib=3"), Catch::Contains("is over memory.device_gib = 3 by"));
  const std::string fixed = refused("parallel.auto=[]");
  CHECK_THAT(fixed, Catch::Contains("this run does not fit: over memory.device_gib = 12 by") &&
                        Catch::Contains("nearest plan that fits: ") &&
                        Catch::Contains("memory.offload.optimizer=host"));
}

TEST_CASE("plan finds the largest model that fits", "[cli][plan]") {
  const TemporaryFolder folder;
  const std::string spec = spec_file(folder, "memory: {device_gib: 4, host_gib: 8}\nparallel: {cluster: dgx-h100}\n");
  const Outcome text = run(fptrain({"plan", spec, "--largest"}));
  INFO(text.output);
  REQUIRE(text.code == 0);
  for (const char* part : {"largest model", " parameters", "limit ", " layers are over memory.", "tokens a second"})
    CHECK_THAT(text.output, Catch::Contains(part));
  const Json j = object_of(run(fptrain({"plan", spec, "--largest", "--json"})).output);
  const Json& m = j["largest_model"];
  CHECK(m["parameters"].get<double>() > 3e8);
  CHECK(m["hidden"].get<int>() == 32 * m["layers"].get<int>());
  CHECK(m["heads"].get<int>() == m["layers"].get<int>());
  CHECK(j["limit"]["layers"].get<int>() == m["layers"].get<int>() + 1);
  CHECK(j["memory"]["offloaded"]["optimizer"].get<double>() > 0);
  CHECK(j["fits"] == true);
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command{"plan", spec, "--largest"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome o = run(fptrain(command));
    CHECK(o.code == 2);
    return o.output;
  };
  CHECK_THAT(refused({"--set", "memory.device_gib=0.5"}), Catch::Contains("nothing fits: models of 1 layers are over"));
  CHECK_THAT(refused({"--set", "parallel.auto=[tensor]"}), Catch::Contains("`fptrain plan --largest` does not plan"));
  CHECK_THAT(refused({"--longest"}), Catch::Contains("--longest"));
}

TEST_CASE("plan refuses illegal arguments", "[cli][plan]") {
  const TemporaryFolder folder;
  const std::string spec = spec_file(folder, "parallel: auto\n");
  const auto refused = [&](std::vector<std::string> more, const std::string& message) {
    more.insert(more.begin(), {"plan", spec});
    const Outcome o = run(fptrain(more));
    INFO(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Catch::Contains(message));
  };
  refused({"--ranks", "4"}, "by its predicted time, which needs a cluster description");
  refused({"--cluster", "dgx-a100"}, "give it with --ranks N");
  refused({"--cluster", "no-such", "--ranks", "4"}, "there is no cluster description 'no-such'; legal: the path");
  refused({"--cluster", "no-such", "--ranks", "4"}, "dgx-h100");
  refused({"--cluster", "dgx-a100", "--ranks", "4", "--set", "parallel.tensor=3"},
          "no values of the keys that parallel.auto leaves open");
  const std::string closed = spec_file(folder, "");
  refused({"--cluster", "dgx-a100", "--set", "parallel.tensor=8", "--ranks", "8"}, "use 1 to 4");
}

TEST_CASE("training uses the plan for the open keys of its spec", "[cli][plan][slow]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  const Outcome measured =
      run(w.train(spec, "here", {"--set", "parallel=auto", "--set", "train.steps=4", "--set", "eval.every=0"}));
  INFO(measured.output);
  CHECK(measured.code == 0);
  CHECK_THAT(measured.output, Catch::Contains("measuring this machine") && Catch::Contains("plan for 1 rank of"));
  const Outcome o = run(w.train(spec, "run",
                                {"--set", "parallel={auto: [all, micro_batch], cluster: laptop}", "--set",
                                 "train.steps=4", "--set", "eval.every=0"}));
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Catch::Contains("plan for 1 rank of"));
  const std::string config = slurp(w.run_directory("run") / "config.yaml");
  CHECK_THAT(config, Catch::Contains("auto: []"));
  CHECK(Json::parse(slurp(w.run_directory("run") / "plan.json"))["plan"]["tp"] == 1);
}

TEST_CASE("a resumed run keeps its plan, and one that has saved nothing is planned again", "[cli][plan]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  const auto start = [&](const std::string& steps) {
    const Outcome o = run(w.train(spec, "run",
                                  {"--set", "parallel={auto: [zero_stage, micro_batch], data: 0, cluster: laptop}",
                                   "--set", "train.steps=" + steps, "--set", "eval.every=0"}));
    CAPTURE(o.output);
    CHECK(o.code == 0);
    return Catch::Contains("kept from the start of the run").match(o.output);
  };
  CHECK_FALSE(start("4"));
  CHECK(start("6"));
  std::filesystem::remove_all(w.run_directory("run") / "checkpoints");
  CHECK_FALSE(start("6"));
}

TEST_CASE("training stays within its budget of memory, or is refused before it begins", "[cli][plan][slow]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  const std::vector<std::string> short_run = {"--set",        "train.steps=4", "--set",
                                              "eval.every=0", "--set",         "parallel.cluster=laptop"};
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), short_run.begin(), short_run.end());
    return run(w.train(spec, name, more));
  };
  const auto arenas = [&](const std::string& name) {
    return Json::parse(slurp(w.run_directory(name) / "memory.json"))[0];
  };
  REQUIRE(train("whole", {}).code == 0);
  const double budget = 0.7 * arenas("whole")["arena_peak"].get<double>();
  const std::string set = fmt::format("memory.device_gib={:.9f}", budget / (1 << 30));
  const Outcome o = train("within", {"--set", set});
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Catch::Contains("plan for 1 rank of laptop"));
  const Json within = arenas("within");
  CHECK(within["arena_peak"].get<double>() <= budget);
  CHECK(within["arena_peak"] == within["predicted_arena"]);
  CHECK(within["host_arena_peak"] == within["predicted_host_arena"]);
  const auto of_whole = history(w.run_directory("whole")), of_within = history(w.run_directory("within"));
  REQUIRE(of_whole.size() == of_within.size());
  for (const auto& [step, loss] : of_whole) CHECK(of_within.at(step).first == Approx(loss.first).epsilon(1e-5));

  const Outcome little = train("little", {"--set", "memory.device_gib=0.0001"});
  CHECK(little.code == 2);
  CHECK_THAT(little.output, Catch::Contains("over memory.device_gib = 0.0001"));
  const Outcome fixed = train("fixed", {"--set", set, "--set", "parallel.auto=[]"});
  CHECK(fixed.code == 2);
  CHECK_THAT(fixed.output,
             Catch::Contains("the budget memory.device_gib is") && Catch::Contains("nearest plan that fits"));
  for (const char* name : {"little", "fixed"}) CHECK_FALSE(std::filesystem::exists(w.run_directory(name)));
}
