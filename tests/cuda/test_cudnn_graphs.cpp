// cuDNN builds the plans of fptrain's attention graphs for GPUs that are only described to it. So every machine with
// the library tests that its engines recognise the patterns; the results of the plans need a GPU.
#include <catch2/catch.hpp>

#include "support/skip.h"

#ifdef FP_HAS_CUDA

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"
#include "cuda/runtime/cudnn_attention_graphs.h"

using namespace fp;
using namespace fp::cuda;
using cudnn_api::Descriptor;

namespace {

// Returns why cuDNN cannot be used here; empty when it can.
std::string missing() {
  if (dlopen(FP_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
  try {
    const auto version = static_cast<int64_t>(cudnn().cudnnGetVersion());
    if (version < cudnn_version(9, 18, 0)) return "its cuDNN is older than 9.18";
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

// Returns cuDNN's description of a GPU. Only version, multiprocessors and shared memory are those of that GPU.
Descriptor described_gpu(int version, int multiprocessors, int shared_bytes) {
  const std::string json = fmt::format(
      R"({{"deviceName":"described","cudaDeviceId":0,"deviceVer":{},"multiProcessorCount":{},"driverVer":13000,)"
      R"("maxSharedMemoryPerBlockOptin":{},"totalGlobalMem":85000000000,"maxBlockSize":[1024,1024,64],)"
      R"("maxGridSize":[2147483647,65535,65535],"regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)"
      R"("memClockRateKHz":2619000,"l2CacheSize":52428800}})",
      version, multiprocessors, shared_bytes);
  Descriptor gpu(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  gpu.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()), json.data());
  gpu.finalize();
  return gpu;
}

Descriptor h100() { return described_gpu(900, 132, 232448); }

void both_passes(const AttentionShape& shape, int64_t window, bool documents, const Descriptor& gpu,
                 int64_t q_offset = 0) {
  const cudnn_api::Target target{nullptr, &gpu};
  AttentionSpec spec;
  spec.scale = 0.125, spec.window = window, spec.q_offset = q_offset;
  CAPTURE(shape.head_dim, shape.queries, shape.kv_heads, window, documents);
  CHECK(forward_graph(shape, spec, documents, target).plan.workspace_bytes() < 4096);
  const AttentionSlice slice = slice_below(kScoreGradientLimit, shape);
  const BackwardGraph backward = backward_graph(shape, slice, spec, documents, target);
  // At least the gradient of the scores, which is kept in memory instead of being added up by atomics.
  const AttentionShape some = shape_of(slice, shape);
  CHECK(backward.plan.workspace_bytes() >= static_cast<size_t>(some.batch) * score_gradient_bytes(some));
}

}  // namespace

TEST_CASE("cuDNN builds both passes for the shapes of GPT-2 and Llama on an H100") {
  if (const std::string why = missing(); !why.empty()) FP_SKIP(why);
  const Descriptor gpu = h100();
  both_passes({8, 1024, 1024, 25, 25, 64}, 0, false, gpu);
  both_passes({1, 4096, 4096, 32, 8, 128}, 512, false, gpu);
}

TEST_CASE("cuDNN builds a backward pass for some heads of a long sequence on an H100") {
  if (const std::string why = missing(); !why.empty()) FP_SKIP(why);
  const Descriptor gpu = h100();
  both_passes({1, 8192, 8192, 32, 8, 128}, 0, false, gpu);
  both_passes({2, 16384, 16384, 25, 25, 64}, 0, true, gpu);
  both_passes({1, 16384, 16384, 25, 25, 64}, 0, false, gpu);
}

TEST_CASE("cuDNN builds both passes for chunks of keys before the queries on an H100") {
  if (const std::string why = missing(); !why.empty()) FP_SKIP(why);
  const Descriptor gpu = h100();
  both_passes({1, 8192, 8192, 32, 8, 64}, 0, false, gpu, 16384);
  both_passes({2, 256, 128, 8, 8, 128}, 0, false, gpu, 128);
}

TEST_CASE("cuDNN builds both passes for odd lengths and head sizes on an H100") {
  if (const std::string why = missing(); !why.empty()) FP_SKIP(why);
  const Descriptor gpu = h100();
  both_passes({2, 77, 77, 4, 2, 80}, 5, false, gpu);
  both_passes({2, 200, 200, 4, 4, 256}, 0, false, gpu);
}

TEST_CASE("cuDNN builds both passes for packed documents on an H100") {
  if (const std::string why = missing(); !why.empty()) FP_SKIP(why);
  both_passes({2, 1024, 1024, 8, 2, 128}, 300, true, h100());
}

TEST_CASE("cuDNN builds the forward pass of long sequences whose backward pass is refused") {
  if (const std::string why = missing(); !why.empty()) FP_SKIP(why);
  const AttentionShape llama{1, 32768, 32768, 32, 8, 128};
  const auto version = static_cast<int64_t>(cudnn().cudnnGetVersion());
  CHECK(cudnn_refusal(AttentionPass::forward, version, 9, llama, {}, DType::bf16, false).empty());
  CHECK(!cudnn_refusal(AttentionPass::backward, version, 9, llama, {}, DType::bf16, false).empty());
  const Descriptor gpu = h100();
  CHECK(forward_graph(llama, {}, false, {nullptr, &gpu}).plan.workspace_bytes() < 4096);
}

TEST_CASE("cuDNN builds both passes on an A100 and a B200, and the forward pass for packed documents") {
  if (const std::string why = missing(); !why.empty()) FP_SKIP(why);
  for (const Descriptor& gpu : {described_gpu(800, 108, 166912), described_gpu(1000, 148, 232448)}) {
    both_passes({2, 512, 512, 8, 2, 64}, 0, false, gpu);
    CHECK_NOTHROW(forward_graph({2, 512, 512, 8, 2, 64}, {}, true, {nullptr, &gpu}));
    CHECK_THROWS_AS(backward_graph({2, 512, 512, 8, 2, 64}, {2, 2}, {}, true, {nullptr, &gpu}), cudnn_api::Unsupported);
  }
}

#else

TEST_CASE("cuDNN builds plans for described GPUs") { FP_SKIP("built without CUDA"); }

#endif
