// The choice of the attention implementation, and FPTRAIN_ATTENTION.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/error.h"
#include "cuda/ops/cuda_ops.h"

using namespace fp;

namespace {

struct Only {
  explicit Only(const char* list) { ::setenv("FPTRAIN_ATTENTION", list, 1); }
  ~Only() { ::unsetenv("FPTRAIN_ATTENTION"); }
};

Tensor shape_only(DType dtype) { return {reinterpret_cast<void*>(uintptr_t{1} << 60), dtype, {1, 16, 2, 64}}; }

size_t forward_scratch(const Ops& ops, const Tensor& x) {
  return ops.scratch_of(calls::Attention{.o = x, .lse = {}, .q = x, .k = x, .v = x, .spec = {}});
}
size_t backward_scratch(const Ops& ops, const Tensor& x) {
  return ops.scratch_of(calls::AttentionBackward{
      .dq = x, .dk = x, .dv = x, .d_o = x, .q = x, .k = x, .v = x, .o = x, .lse = {}, .spec = {}});
}

// Stands in for cuDNN, which may refuse one pass and support the other.
class ForwardOnly final : public cuda::AttentionKernel {
 public:
  explicit ForwardOnly(std::vector<std::string>& calls) : calls_(calls) {}
  std::string name() const override { return "fused"; }
  std::string refuses(const cuda::AttentionCall& c, cuda::AttentionPass pass) const override {
    if (c.q.dtype != DType::bf16) return "not bf16";
    return pass == cuda::AttentionPass::forward ? "" : "too many score gradients";
  }
  size_t scratch_bytes(const cuda::AttentionCall&, cuda::AttentionPass) const override { return 12345; }
  void forward(cuda::Device&, const cuda::AttentionCall&, std::byte*) override { calls_.push_back("fused forward"); }
  void backward(cuda::Device&, const cuda::AttentionCall&, std::byte*) override { calls_.push_back("fused backward"); }

 private:
  std::vector<std::string>& calls_;
};

// Supports every call, and records the passes that it runs.
class Fallback final : public cuda::AttentionKernel {
 public:
  explicit Fallback(std::vector<std::string>& calls) : calls_(calls) {}
  std::string name() const override { return "own"; }
  std::string refuses(const cuda::AttentionCall&, cuda::AttentionPass) const override { return ""; }
  size_t scratch_bytes(const cuda::AttentionCall&, cuda::AttentionPass) const override { return 678; }
  void forward(cuda::Device&, const cuda::AttentionCall&, std::byte*) override { calls_.push_back("own forward"); }
  void backward(cuda::Device&, const cuda::AttentionCall&, std::byte*) override { calls_.push_back("own backward"); }

 private:
  std::vector<std::string>& calls_;
};

}  // namespace

TEST_CASE("each attention pass runs on the first implementation that supports it") {
  std::vector<std::string> calls;
  cuda::Device device(0);
  device.reserve_scratch(12345);
  cuda::Attention::Kernels kernels;
  kernels.push_back(std::make_unique<ForwardOnly>(calls));
  kernels.push_back(std::make_unique<Fallback>(calls));
  cuda::Attention attention(device, std::move(kernels));
  cuda::AttentionCall call;
  call.q = call.k = shape_only(DType::bf16);
  attention.forward(call);
  attention.backward(call);
  CHECK(calls == std::vector<std::string>{"fused forward", "own backward"});
  CHECK(attention.scratch_bytes(call, cuda::AttentionPass::forward) == 12345);
  CHECK(attention.scratch_bytes(call, cuda::AttentionPass::backward) == 678);
  CHECK(attention.explain(call) == "forward: fused; backward: own (fused: too many score gradients)");
  call.q = call.k = shape_only(DType::f32);
  CHECK(attention.explain(call) == "own (fused: not bf16)");  // the same for both passes
}

TEST_CASE("attention kernels refuse head sizes for which a block of the GPU has too little shared memory") {
  constexpr size_t kLarge = 232448, kSmall = 101376;  // of an H100 and of an L40S
  const auto refused = [](const cuda::AttentionKernel& kernel, DType type, int64_t head, cuda::AttentionPass pass) {
    cuda::AttentionCall call;
    call.q = call.k = call.v = {reinterpret_cast<void*>(uintptr_t{1} << 60), type, {1, 16, 2, head}};
    const std::string why = kernel.refuses(call, pass);
    CHECK((why.empty() || why.find("101376") != std::string::npos));
    return !why.empty();
  };
  using enum cuda::AttentionPass;
  for (const int64_t head : {64, 96, 128, 256}) {
    CHECK_FALSE(refused(*cuda::make_flash_attention(kLarge), DType::bf16, head, forward));
    CHECK_FALSE(refused(*cuda::make_flash_attention(kLarge), DType::bf16, head, backward));
    CHECK_FALSE(refused(*cuda::make_simt_attention(kLarge), DType::f32, head, backward));
    CHECK(refused(*cuda::make_flash_attention(kSmall), DType::bf16, head, forward) == (head > 96));
    CHECK(refused(*cuda::make_flash_attention(kSmall), DType::bf16, head, backward) == (head > 64));
    CHECK(refused(*cuda::make_simt_attention(kSmall), DType::f32, head, forward) == (head > 64));
    CHECK(refused(*cuda::make_simt_attention(kSmall), DType::f32, head, backward) == (head > 64));
  }
}

TEST_CASE("FPTRAIN_ATTENTION keeps only the implementations that it names") {
  const Tensor f32 = shape_only(DType::f32), bf16 = shape_only(DType::bf16);
  {
    CudaOps all(0);
    CHECK(all.explain_attention(f32, f32, {}, {}).starts_with("simt ("));
    CHECK(all.explain_attention(bf16, bf16, {}, {}) == "flash");
  }
  const Only simt("simt");
  CudaOps ops(0);
  CHECK(ops.explain_attention(f32, f32, {}, {}) == "simt");
}

TEST_CASE("a call that all implementations kept by FPTRAIN_ATTENTION refuse fails with their reasons") {
  const Only flash("flash");
  CudaOps ops(0);
  const Tensor f32 = shape_only(DType::f32), bf16 = shape_only(DType::bf16);
  CHECK_NOTHROW(forward_scratch(ops, bf16));
  CHECK_THROWS_AS(forward_scratch(ops, f32), ConfigError);
  CHECK_THROWS_WITH(forward_scratch(ops, f32),
                    Catch::Contains("FPTRAIN_ATTENTION=flash") && Catch::Contains("flash: "));
}

TEST_CASE("a head size that no implementation supports is an error at set-up") {
  CudaOps ops(0);
  for (const DType t : {DType::f32, DType::bf16}) {
    const Tensor wide(reinterpret_cast<void*>(uintptr_t{1} << 60), t, {1, 16, 2, 264});
    CHECK_THROWS_AS(backward_scratch(ops, wide), ConfigError);
    CHECK_THROWS_WITH(backward_scratch(ops, wide), Catch::Contains("264") && Catch::Contains("cpu"));
  }
}

TEST_CASE("an unknown name in FPTRAIN_ATTENTION is refused with the legal ones") {
  for (const char* list : {"fast", "flash,fast", "", "flash;simt"}) {
    INFO(list);
    const Only only(list);
    CHECK_THROWS_AS(CudaOps(0), ConfigError);
    CHECK_THROWS_WITH(CudaOps(0), Catch::Contains("flash, simt"));
  }
}
