// fptrain submit with a fake sbatch. scripts/test-slurm tests with a real one.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;

namespace {

// Runs fptrain submit with a PATH that has an sbatch with this script, or none.
class Submission {
 public:
  explicit Submission(const std::string& sbatch = "") {
    std::filesystem::create_directories(bin());
    if (sbatch.empty()) return;
    std::ofstream(bin() / "sbatch") << "#!/bin/bash\n" << sbatch;
    std::filesystem::permissions(bin() / "sbatch", std::filesystem::perms::owner_all);
  }

  Outcome operator()(std::vector<std::string> options) const {
    const std::string file = files_.spec("llama", "fp32");
    options.insert(options.begin(), {"submit", file, "--set", "run.directory=" + directory().string()});
    std::vector<std::string> command = fptrain(options);
    command.insert(command.begin(), {"/usr/bin/env", "PATH=" + bin().string()});
    return run(command);
  }

  std::filesystem::path root() const { return files_.root(); }
  std::filesystem::path directory() const { return files_.run_directory("a run"); }

 private:
  std::filesystem::path bin() const { return files_.root() / "bin"; }
  Workspace files_;
};

}  // namespace

TEST_CASE("submit writes the script into the run directory and gives it to sbatch", "[cli][submit]") {
  const Submission submit("echo \"$@\" >&2; echo '42;cluster'");
  const Outcome o = submit({"--time", "30", "--partition", "gpu", "--account", "me", "--qos", "low"});
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  const auto file = submit.directory() / "submit.sbatch";
  CHECK_THAT(o.output, Contains("--parsable " + file.string()) && Contains("job 42: " + file.string()));
  const std::string script = slurp(file);
  for (const std::string& line :
       {std::string("--partition=gpu"), std::string("--account=me"), std::string("--qos=low"), std::string("--time=30"),
        std::string("--nodes=1"), std::string("--signal=USR1@120"), std::string("--requeue"),
        "--output=\"" + submit.directory().string() + "/slurm-%j.log\""})
    CHECK_THAT(script, Contains("#SBATCH " + line + "\n"));
  CHECK_THAT(script, Contains("train=(" FP_EXECUTABLE " train "));
  CHECK_THAT(script, Contains("--set 'run.directory=" + submit.directory().string() + "'"));
}

TEST_CASE("submit --dry-run prints the script and writes nothing", "[cli][submit]") {
  const Submission submit;
  const Outcome o = submit({"--dry-run", "--time", "10", "--no-requeue", "--job-name", "x", "--signal-before", "0"});
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("#!/usr/bin/env bash\n") && Contains("mkdir -p '" + submit.directory().string()));
  CHECK_THAT(o.output,
             Contains("--no-requeue") && Contains("--job-name=x\n") && !Contains("--signal") && !Contains("scontrol"));
  CHECK(!std::filesystem::exists(submit.directory()));
}

TEST_CASE("a job's script, folder and umask have the permissions of its run", "[cli][submit]") {
  const Submission submit("umask >&2; echo 42");
  const Outcome o = submit({"--set", "run.permissions=private"});
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("0077\n"));
  CHECK_THAT(slurp(submit.directory() / "submit.sbatch"), Contains("\numask 0077"));
  const auto only_mine = [](const std::filesystem::path& path) {
    return (std::filesystem::status(path).permissions() & ~std::filesystem::perms::owner_all) ==
           std::filesystem::perms::none;
  };
  CHECK(only_mine(submit.directory()));
  CHECK(only_mine(submit.directory() / "submit.sbatch"));
  CHECK_THAT(submit({"--dry-run"}).output, !Contains("umask"));
}

TEST_CASE("submit refuses illegal options with the reason", "[cli][submit]") {
  const Submission submit("echo no such partition >&2; exit 1");
  const auto refused = [&](const std::vector<std::string>& options, const std::string& why) {
    const Outcome o = submit(options);
    CAPTURE(o.output, why);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(why));
  };
  refused({"--nodes", "4-2"}, "--nodes 4-2");
  refused({"--nodes", "some"}, "--nodes some");
  refused({"--time", "soon"}, "--time soon");
  refused({"--time", "1", "--signal-before", "60"}, "is not less than --time 1");
  refused({"--sbatch-option=mem=1G"}, "--sbatch-option=--mem=64G");
  refused({"--launcher", "ssh"}, "--launcher");
  refused({}, "no such partition");
  const Outcome none = Submission()({});
  CAPTURE(none.output);
  CHECK(none.code == 2);
  CHECK_THAT(none.output, Contains("sbatch could not be started"));
}

TEST_CASE("submit refuses a time limit that allows only one step per start", "[cli][submit]") {
  const Submission submit;
  const auto with = [&](const std::string& time, const std::string& margin) {
    return submit({"--dry-run", "--time", time, "--set", "checkpoint.time_margin_s=" + margin});
  };
  const Outcome o = with("2", "120");
  CAPTURE(o.output);
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("--time 2 is 120 s") && Contains("ends 120 s before its time limit") &&
                           Contains("Legal: --time 3 or more, or checkpoint.time_margin_s below 120"));
  CHECK(with("2", "119").code == 0);
  CHECK(with("3", "120").code == 0);
  CHECK(submit({"--dry-run", "--time", "1"}).code == 2);                            // all of the default margin
  CHECK(submit({"--dry-run", "--set", "checkpoint.time_margin_s=1e9"}).code == 0);  // the partition's limit is unknown
}

TEST_CASE("submit says that a job without run.device asks for no GPUs, and that memory was not checked",
          "[cli][submit]") {
  const Submission submit;
  CHECK_THAT(submit({"--dry-run"}).output, !Contains("asks for no GPUs"));  // run.device is cpu
  CHECK_THAT(
      submit({"--dry-run", "--set", "run.device=auto"}).output,
      Contains("run.device is auto: the job asks for no GPUs; --set run.device=cuda trains on one GPU per rank") &&
          Contains("fits in memory was not checked: parallel.cluster names no cluster description"));
  const Outcome cuda = submit({"--dry-run", "--set", "run.device=cuda", "--set", "parallel.cluster=dgx-a100"});
  CAPTURE(cuda.output);
  CHECK(cuda.code == 0);
  CHECK_THAT(cuda.output, !Contains("asks for no GPUs") && !Contains("was not checked"));
}

TEST_CASE("submit refuses fewer GPUs than ranks on a node", "[cli][submit]") {
  const Submission submit;
  const auto with = [&](const std::string& gpus, const std::string& shared) {
    return submit({"--dry-run", "--ranks-per-node", "2", "--gpus-per-node", gpus, "--set", "run.device=cuda", "--set",
                   "parallel.allow_gpu_sharing=" + shared});
  };
  const Outcome o = with("1", "false");
  CAPTURE(o.output);
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("--gpus-per-node 1 is less than --ranks-per-node 2; legal: one GPU or more"));
  CHECK(with("1", "true").code == 0);
  CHECK(with("2", "false").code == 0);
  CHECK(with("0", "false").code == 0);  // --sbatch-option may ask for them
}

TEST_CASE("submit refuses nodes and devices that the cluster does not have", "[cli][submit]") {
  const Submission submit;
  const auto refused = [&](std::vector<std::string> options, const std::string& why) {
    options.emplace_back("--dry-run");
    const Outcome o = submit(options);
    CAPTURE(o.output, why);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(why));
  };
  const std::string gpus = "parallel.cluster=dgx-a100";
  refused({"--set", gpus}, "run.device is cpu, but cluster");
  refused({"--set", "run.device=cuda", "--set", "parallel.cluster=laptop"}, "describes ranks on cpu");
  refused({"--set", "run.device=cuda", "--set", gpus, "--ranks-per-node", "16"}, "at most 8 ranks per node");
}

TEST_CASE("submit counts the memory of the ranks that a node of the job has", "[cli][submit]") {
  const Submission submit;
  std::string cluster = slurp(FP_SOURCE_DIR "/configs/clusters/laptop.yaml");
  cluster.replace(cluster.find("\nnodes: 1\n"), 10, "\nnodes: 4\n");
  std::ofstream(submit.root() / "laptops.yaml")
      << cluster << "      - {between: nodes, kind: any, latency_us: 50, gb_per_s: 1}\n";
  const auto with = [&](const char* nodes, const char* ranks_per_node) {
    return submit({"--dry-run",
                   "--nodes",
                   nodes,
                   "--ranks-per-node",
                   ranks_per_node,
                   "--set",
                   "parallel.cluster=" + (submit.root() / "laptops.yaml").string(),
                   "--set",
                   "train.micro_batch=1",
                   "--set",
                   "train.global_batch=8",
                   "--set",
                   "parallel.data=0",
                   "--set",
                   "model.hidden=2048",
                   "--set",
                   "model.layers=10",
                   "--set",
                   "checkpoint.asynchronous=false",
                   "--set",
                   "model.heads=16",
                   "--set",
                   "model.kv_heads=16",
                   "--set",
                   "model.ffn=8192",
                   "--set",
                   "model.head_dim=128"});
  };
  const Outcome one = with("1", "1"), apart = with("2", "1"), together = with("1", "2"), too_many = with("8", "1");
  CAPTURE(one.output, apart.output, together.output, too_many.output);
  CHECK(one.code == 0);
  CHECK(apart.code == 0);
  CHECK(together.code == 2);
  CHECK_THAT(together.output, Contains("GiB"));
  CHECK(too_many.code == 2);
  CHECK_THAT(too_many.output, Contains("has 4 nodes"));
}

TEST_CASE("submit refuses a run that does not fit in the memory of its nodes", "[cli][submit]") {
  const Submission submit;
  for (const char* plan : {"parallel.zero_stage=0", "parallel=auto"}) {
    const Outcome o =
        submit({"--dry-run", "--set", "run.device=cuda", "--set", "model.hidden=32768", "--set", "model.layers=64",
                "--set", "model.ffn=65536", "--set", plan, "--set", "parallel.cluster=dgx-a100"});
    CAPTURE(plan, o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains("fit") && Contains("over by ") && !Contains("#SBATCH"));
  }
}

TEST_CASE("submit checks every number of nodes that the job may get", "[cli][submit]") {
  const Submission submit;
  const std::vector<std::string> dry = {"--dry-run", "--set", "train.global_batch=8", "--set", "train.micro_batch=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), dry.begin(), dry.end());
    return submit(more);
  };
  // A batch of 8 cannot be split over three data-parallel ranks.
  const Outcome three = with({"--nodes", "1-4", "--set", "parallel.data=0"});
  CAPTURE(three.output);
  CHECK(three.code == 2);
  CHECK_THAT(three.output,
             Contains("3 nodes with 1 rank each") && Contains("can run it: 1, 2, 4") && Contains("`parallel: auto`"));
  CHECK(with({"--nodes", "2", "--ranks-per-node", "2", "--set", "parallel.data=0"}).code == 0);
  // For three nodes the planner finds a plan: four heads split unevenly, or layers in stages.
  CHECK(with({"--nodes", "1-4", "--set", "parallel=auto"}).code == 0);
  const Outcome many = with({"--nodes", "1-40", "--set", "parallel=auto"});
  CAPTURE(many.output);
  CHECK(many.code == 2);
  CHECK_THAT(many.output, Contains("no legal plan"));
}

TEST_CASE("submit leaves the plan of a run spec without one to the planner", "[cli][submit]") {
  const Submission submit;
  const Outcome o = submit({"--dry-run", "--nodes", "1-2", "--ranks-per-node", "2", "--set", "train.micro_batch=1"});
  CAPTURE(o.output);
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Contains("as with --set parallel=auto") && Contains("--set 'parallel.auto=[all]'"));
  CHECK_THAT(submit({"--dry-run"}).output, !Contains("parallel.auto"));  // one rank needs no plan
  const Outcome divided = submit({"--dry-run", "--nodes", "3", "--set", "parallel.data=2"});
  CAPTURE(divided.output);
  CHECK(divided.code == 2);
  CHECK_THAT(divided.output, Contains("give nodes and ranks per node that make 2") && !Contains("mpirun"));
}
