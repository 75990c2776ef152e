// run.device on any machine: the log names the device, or the error what is missing.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;

namespace {

// Hides all GPUs by the CUDA driver's own variable.
const std::vector<std::string> kNoGpu = {"/usr/bin/env", "CUDA_VISIBLE_DEVICES="};

Outcome without_gpu(std::vector<std::string> command) {
  command.insert(command.begin(), kNoGpu.begin(), kNoGpu.end());
  return run(command);
}

}  // namespace

TEST_CASE("a run that requires a missing GPU ends with 2 and the reason", "[cli]") {
  const Workspace w;
  const Outcome o = without_gpu(w.train(w.spec("llama", "fp32"), "r", {"--set", "run.device=cuda"}));
  CAPTURE(o.output);
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("cuda") &&
                           (Contains("FPTRAIN_CUDA=ON") || Contains("driver") || Contains("CUDA_VISIBLE_DEVICES")));
  CHECK(!std::filesystem::exists(w.run_directory("r")));
}

TEST_CASE("device auto logs in one line that it takes the CPU and why", "[cli]") {
  const Workspace w;
  const Outcome o =
      without_gpu(w.train(w.spec("llama", "fp32"), "r", {"--set", "run.device=auto", "--set", "train.steps=4"}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  const size_t first = o.output.find("device: cpu, as no GPU can be used: ");
  REQUIRE(first != std::string::npos);
  CHECK(o.output.find("device: cpu", first + 1) == std::string::npos);
  // Other commands say it only where there is a GPU that they do not use.
  const Outcome text = without_gpu(
      fptrain({"generate", "--checkpoint", w.run_directory("r").string(), "--prompt", "a", "--max-tokens", "1"}));
  CAPTURE(text.output);
  CHECK(text.code == 0);
  const bool has_gpu = std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/proc/driver/nvidia");
  CHECK((text.output.find("device: cpu") != std::string::npos) == has_gpu);
}

TEST_CASE("plan reports the memory of a run and its attention implementation", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "bf16");
  const Outcome o = without_gpu(fptrain({"plan", spec.string(), "--explain"}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("memory at the peak of a step") && Contains("attention is run by   cpu"));
  CHECK(!std::filesystem::exists(w.root() / "runs"));

  const Outcome large =
      without_gpu(fptrain({"plan", spec.string(), "--set", "model.layers=1000", "--set", "model.hidden=8192"}));
  CAPTURE(large.output);
  CHECK(large.code == 2);
}

TEST_CASE("plan predicts a rank of a mesh larger than this machine", "[cli]") {
  const std::string spec = FP_SOURCE_DIR "/configs/parallel-multi-node.yaml";  // 32 ranks; shorter, to fit anywhere
  const Outcome o = without_gpu(fptrain({"plan", spec, "--set", "model.layers=2"}));
  CAPTURE(o.output);
  CHECK(o.code == 0);
  for (const char* sent : {"data: reduce_scatter", "sequence: all_to_all", "tensor: all_gather"})
    CHECK_THAT(o.output, Contains(sent));

  const Outcome indivisible = without_gpu(fptrain({"plan", spec, "--set", "parallel.data=3"}));
  CAPTURE(indivisible.output);
  CHECK(indivisible.code == 2);
  CHECK_THAT(indivisible.output, Contains("parallel.data"));
}
