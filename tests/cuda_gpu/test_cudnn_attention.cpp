// Backward attention by cuDNN in parts: slices of heads, and tiles of tokens.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <random>

#include "backends.h"
#include "base/dtype.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/runtime/cudnn_attention.h"
#include "support/skip.h"

using namespace fp;
using namespace fp::cuda;

namespace {

// Tensors on the device, whose memory lives as long as this.
class Tensors {
 public:
  explicit Tensors(Device& device) : device_(device) {}

  // Elements of a standard normal distribution.
  Tensor random(const Shape& shape) {
    const Tensor t = empty(shape, DType::bf16);
    std::vector<bf16> values(static_cast<size_t>(t.elements()));
    std::normal_distribution<float> normal;
    for (bf16& v : values) v = bf16(normal(generator_));
    device_.copy_in(t.data, values.data(), t.bytes());
    return t;
  }
  Tensor empty(const Shape& shape, DType type) {
    memory_.push_back(device_.allocate(static_cast<size_t>(shape.elements()) * size_of(type)));
    return {memory_.back().get(), type, shape};
  }
  std::vector<std::byte> read(const Tensor& t) {
    std::vector<std::byte> bytes(t.bytes());
    device_.copy_out(bytes.data(), t.data, bytes.size());
    return bytes;
  }

 private:
  Device& device_;
  std::mt19937 generator_{7};
  std::vector<std::shared_ptr<std::byte>> memory_;
};

}  // namespace

TEST_CASE("cuDNN's backward attention by slices of heads has the bits of all heads at once") {
  (void)test::backends();  // skips where there is no GPU
  Device device(0);
  const int64_t batch = 2, length = 256, heads = 8, kv_heads = 4, d = 64;
  const AttentionShape shape{batch, length, length, heads, kv_heads, d};
  AttentionSpec spec;
  spec.scale = 0.125;
  Tensors tensors(device);
  const Shape like_q = {batch, length, heads, d}, like_k = {batch, length, kv_heads, d};
  const Tensor q = tensors.random(like_q), k = tensors.random(like_k), v = tensors.random(like_k),
               d_o = tensors.random(like_q), o = tensors.empty(like_q, DType::bf16),
               lse = tensors.empty({batch, heads, length}, DType::f32);

  const auto gradients = [&](size_t limit) {
    CudnnAttention attention(device, limit);
    const auto bytes = [&](AttentionPass pass) { return attention.workspace_bytes(pass, shape, spec, false); };
    for (const AttentionPass pass : {AttentionPass::forward, AttentionPass::backward}) {
      REQUIRE(attention.refuses(pass, shape, spec, DType::bf16, false).empty());
      device.reserve_scratch(bytes(pass));
    }
    const Tensor dq = tensors.empty(like_q, DType::bf16), dk = tensors.empty(like_k, DType::bf16),
                 dv = tensors.empty(like_k, DType::bf16);
    attention.forward(o, lse, q, k, v, {}, spec, device.scratch(bytes(AttentionPass::forward)));
    attention.backward(dq, dk, dv, d_o, q, k, v, o, lse, {}, spec, device.scratch(bytes(AttentionPass::backward)));
    return std::vector{tensors.read(dq), tensors.read(dk), tensors.read(dv)};
  };
  const auto whole = gradients(kScoreGradientLimit);
  CHECK(gradients(score_gradient_bytes(shape) / 2) == whole);  // two heads of keys at a time
  CHECK(gradients(score_gradient_bytes(shape) / 4) == whole);  // one
}

TEST_CASE("cuDNN's backward attention in tiles of tokens agrees with fptrain's own kernels") {
  (void)test::backends();  // skips where there is no GPU
  CudaOps ops(0);
  ::setenv("FPTRAIN_ATTENTION", "flash", 1);
  CudaOps own(0);
  ::unsetenv("FPTRAIN_ATTENTION");
  const int64_t batch = 1, length = 16384, heads = 16, kv_heads = 2, d = 64;  // 4 GiB of score gradients a head of keys
  AttentionSpec spec;
  spec.scale = 0.125;
  Tensors tensors(ops.device());
  const Shape like_q = {batch, length, heads, d}, like_k = {batch, length, kv_heads, d};
  const Tensor q = tensors.random(like_q), k = tensors.random(like_k), v = tensors.random(like_k),
               d_o = tensors.random(like_q), o = tensors.empty(like_q, DType::bf16),
               lse = tensors.empty({batch, heads, length}, DType::f32);
  if (const std::string how = ops.explain_attention(q, k, {}, spec);
      how != "forward: cudnn; backward: cudnn in tiles of 8192 tokens")
    FP_SKIP("cuDNN runs it otherwise: " + how);

  const calls::Attention forward{.o = o, .lse = lse, .q = q, .k = k, .v = v, .spec = spec};
  own.reserve_scratch(own.scratch_of(forward));
  own.attention(forward);
  own.synchronize();
  const auto gradients = [&](CudaOps& by) {
    calls::AttentionBackward call{.dq = tensors.empty(like_q, DType::bf16),
                                  .dk = tensors.empty(like_k, DType::bf16),
                                  .dv = tensors.empty(like_k, DType::bf16),
                                  .d_o = d_o,
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .o = o,
                                  .lse = lse,
                                  .spec = spec};
    by.reserve_scratch(by.scratch_of(call));
    by.attention_backward(call);
    by.synchronize();
    return std::vector{tensors.read(call.dq), tensors.read(call.dk), tensors.read(call.dv)};
  };
  const auto tiled = gradients(ops), expected = gradients(own);
  CHECK(gradients(ops) == tiled);  // deterministic
  for (size_t i = 0; i < tiled.size(); ++i) {
    const auto* a = reinterpret_cast<const bf16*>(tiled[i].data());
    const auto* b = reinterpret_cast<const bf16*>(expected[i].data());
    double difference = 0.0, size = 0.0;
    for (size_t j = 0; j < tiled[i].size() / sizeof(bf16); ++j) {
      difference += std::pow(float(a[j]) - float(b[j]), 2.0);
      size += std::pow(float(b[j]), 2.0);
    }
    CAPTURE(i);
    CHECK(std::sqrt(difference / size) < std::ldexp(1.0, -8));  // a rounding to bf16
  }
}
