// Backward passes in tiles, of which the implementation supports one tile of queries and keys at a time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "cuda/ops/cuda_ops.h"
#include "cuda_host/memory.h"
#include "ops/attention_cases.h"
#include "ops/compare.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int64_t kTile = 128;

// Has a backward pass for one tile only, and records the offsets of those that it runs.
class OneTile final : public cuda::AttentionKernel {
 public:
  struct Pair {
    int64_t q_offset, k_offset, queries, keys;
    bool operator==(const Pair&) const = default;
  };
  OneTile(std::unique_ptr<cuda::AttentionKernel> inner, std::vector<Pair>& ran) : inner_(std::move(inner)), ran_(ran) {}
  std::string name() const override { return "small"; }
  std::string refuses(const cuda::AttentionCall& c, cuda::AttentionPass pass) const override {
    if (pass == cuda::AttentionPass::backward && (c.dq_write == Write::add || c.dkv_write == Write::add))
      return "gradients that are added to";
    if (pass == cuda::AttentionPass::backward && std::max(c.queries(), c.keys()) > kTile) return "more than a tile";
    return inner_->refuses(c, pass);
  }
  size_t scratch_bytes(const cuda::AttentionCall& c, cuda::AttentionPass pass) const override {
    return inner_->scratch_bytes(c, pass);
  }
  void forward(cuda::Device& device, const cuda::AttentionCall& c, std::byte* scratch) override {
    inner_->forward(device, c, scratch);
  }
  void backward(cuda::Device& device, const cuda::AttentionCall& c, std::byte* scratch) override {
    ran_.push_back({c.spec.q_offset, c.spec.k_offset, c.queries(), c.keys()});
    inner_->backward(device, c, scratch);
  }

 private:
  std::unique_ptr<cuda::AttentionKernel> inner_;
  std::vector<Pair>& ran_;
};

// Returns the score gradients of a tile for one head of keys.
size_t limit_of(const AttentionCase& a) {
  return cuda::score_gradient_bytes({.queries = kTile, .keys = kTile, .heads = a.H / a.K});
}

// Checks the gradients of a call in tiles against the oracle, and returns the pairs of tiles that ran.
std::vector<OneTile::Pair> check_tiles(const AttentionCase& a, Write write = Write::set) {
  INFO(a.str());
  Case c;
  const AttentionOperands o(c, a, AttentionOperands::Pass::backward, write, write);
  o.bound_backward();
  if (a.dtype == DType::bf16)  // the parts of a gradient are rounded too
    for (Operand* gradient : {o.dq, o.dk, o.dv})
      for (double& bound : gradient->bound) bound *= 2;
  std::vector<OneTile::Pair> ran;
  c.check([&](Ops& ops) {
    auto* gpu = dynamic_cast<CudaOps*>(&ops);
    if (gpu == nullptr) return o.backward(ops);
    ran.clear();
    const size_t shared = gpu->device().facts().shared_per_block;
    auto own = a.dtype == DType::bf16 ? cuda::make_flash_attention(shared) : cuda::make_simt_attention(shared);
    const auto tiled = cuda::make_tiled_backward(std::make_unique<OneTile>(std::move(own), ran), *gpu, limit_of(a));
    const cuda::AttentionCall call{*o.o,   *o.lse, *o.q,  *o.k,  *o.v,  *o.doc_start, *o.sample_ids,
                                   a.spec, *o.d_o, *o.dq, *o.dk, *o.dv, write,        write};
    REQUIRE(tiled->refuses(call, cuda::AttentionPass::backward).empty());
    CHECK(tiled->description(call, cuda::AttentionPass::backward) == "small in tiles of 128 tokens");
    tiled->backward(gpu->device(), call,
                    gpu->device().scratch(tiled->scratch_bytes(call, cuda::AttentionPass::backward)));
  });
  return ran;
}

AttentionCase causal(int64_t batch, int64_t length, DType dtype) {
  AttentionCase a{
      .B = batch, .Tq = length, .Tk = length, .H = 2, .K = 1, .d = 8, .spec = {}, .documents = false, .dtype = dtype};
  a.spec.scale = 0.35;
  return a;
}

}  // namespace

TEST_CASE("the backward pass in tiles agrees with the oracle") {
  // Three tiles of each of two samples: 128, 128 and 4 tokens.
  const std::vector<OneTile::Pair> of_sample = {{0, 0, 128, 128}, {128, 0, 128, 128}, {128, 128, 128, 128},
                                                {256, 0, 4, 128}, {256, 128, 4, 128}, {256, 256, 4, 4}};
  std::vector<OneTile::Pair> pairs = of_sample;
  pairs.insert(pairs.end(), of_sample.begin(), of_sample.end());
  for (const DType dtype : {DType::f32, DType::bf16}) CHECK(check_tiles(causal(2, 260, dtype)) == pairs);
}

TEST_CASE("the backward pass in tiles adds to gradients") { check_tiles(causal(1, 140, DType::bf16), Write::add); }

TEST_CASE("the backward pass in tiles leaves out tiles that a mask hides") {
  AttentionCase a = causal(1, 300, DType::f32);
  a.spec.window = 20;
  CHECK(check_tiles(a).size() == 5);  // three on the diagonal, two below it
  a = causal(1, 200, DType::f32);
  a.Tk = 130, a.spec.q_offset = 130;  // 200 queries after all the keys
  CHECK(check_tiles(a).size() == 4);
}

TEST_CASE("the backward pass in tiles passes documents and dropout on") {
  AttentionCase a = causal(2, 140, DType::f32);
  a.documents = true;
  a.spec.dropout.p = 0.25;
  CHECK(check_tiles(a).size() == 6);
}

TEST_CASE("a backward pass that is refused in tiles too is refused with the reason of the whole") {
  std::vector<OneTile::Pair> ran;
  auto* gpu = dynamic_cast<CudaOps*>(backends().front().ops.get());
  REQUIRE(gpu != nullptr);
  const auto tiled = cuda::make_tiled_backward(
      std::make_unique<OneTile>(cuda::make_flash_attention(gpu->device().facts().shared_per_block), ran), *gpu,
      limit_of(causal(1, 300, DType::f32)));
  cuda::AttentionCall call;
  const auto shape_only = [](DType type) {
    return Tensor(reinterpret_cast<void*>(uintptr_t{1} << 60), type, {1, 300, 2, 8});
  };
  call.q = call.k = call.v = shape_only(DType::f32);
  CHECK(tiled->refuses(call, cuda::AttentionPass::backward) == "more than a tile");
  CHECK(tiled->refuses(call, cuda::AttentionPass::forward) == "it computes in bf16, not fp32");
  call.q = call.k = call.v = shape_only(DType::bf16);
  CHECK(tiled->refuses(call, cuda::AttentionPass::backward).empty());
  CHECK(tiled->description(call, cuda::AttentionPass::forward) == "small");
}
