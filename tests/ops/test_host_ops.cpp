// Ops that the host's cores run on host memory, beside the device: their results, their order, and what is refused.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "two_memories.h"

using namespace fp;
using namespace fp::test;

namespace {

ArenaTensor random_on_host(TwoMemories& m, unsigned seed, float scale, float shift = 0) {
  ArenaTensor t = m.on_host();
  std::mt19937 draw(seed);
  for (int64_t i = 0; i < t->elements(); ++i)
    t->ptr<float>()[i] = shift + scale * (static_cast<float>(draw()) / 4294967296.0f - 0.5f);
  return t;
}

ArenaTensor uploaded(TwoMemories& m, const Tensor& t) {
  ArenaTensor copy = m.on_device(t.elements(), t.dtype);
  m.ops.copies().wait(m.ops.copies().start(copy, t));
  return copy;
}

}  // namespace

TEST_CASE("updates on the host have the results of the device's") {
  for (const Backend& b : backends()) {
    CAPTURE(b.name);
    TwoMemories m(b);
    const ArenaTensor param = random_on_host(m, 1, 1), first = random_on_host(m, 2, 1e-2f),
                      second = random_on_host(m, 3, 1e-3f, 1e-3f), grad = random_on_host(m, 4, 1e-1f),
                      weights = m.on_host(TwoMemories::kCount, DType::bf16), got = m.on_host(),
                      got_weights = m.on_host(TwoMemories::kCount, DType::bf16);
    const ArenaTensor x = uploaded(m, param), m1 = uploaded(m, first), m2 = uploaded(m, second), g = uploaded(m, grad),
                      w = m.on_device(TwoMemories::kCount, DType::bf16);
    const UpdateOptions options{.lr = 1e-2, .weight_decay = 0.1, .step = 3, .grad_scale = 0.5};
    m.ops.adamw({x, {m1, m2}, g, w, options});
    m.ops.copies().start(got, x);
    m.ops.copies().wait(m.ops.copies().start(got_weights, w));
    m.ops.copies().wait(m.ops.start_on_host(calls::AdamW{param, {first, second}, grad, weights, options}));
    m.ops.synchronize();
    const bool same_code = !b.ops->device_memory();
    if (same_code) {
      CHECK(std::memcmp(got->data, param->data, got->bytes()) == 0);
      CHECK(std::memcmp(got_weights->data, weights->data, weights->bytes()) == 0);
    }
    double worst = 0;  // contraction of products and sums differs
    for (int64_t i = 0; i < TwoMemories::kCount; ++i)
      worst = std::max(worst, std::abs(static_cast<double>(got->ptr<float>()[i]) - param->ptr<float>()[i]));
    CHECK(worst <= 4 * std::ldexp(1.0, -24));
    CHECK(b.problems().empty());
  }
}

TEST_CASE("an op of the host starts after its copy, and a copy after the op that it names") {
  for (const Backend& b : backends()) {
    CAPTURE(b.name);
    TwoMemories m(b);
    Copies& copies = m.ops.copies();
    const ArenaTensor values = random_on_host(m, 5, 1), x = uploaded(m, values),
                      back = m.on_device(TwoMemories::kCount, DType::bf16);
    const ArenaTensor arrived = m.on_host(), rounded = m.on_host(TwoMemories::kCount, DType::bf16),
                      checked = m.on_host(TwoMemories::kCount, DType::bf16);
    for (int turn = 0; turn < 5; ++turn) {
      std::memset(arrived->data, 0, arrived->bytes());
      const CopyTicket in = copies.start(arrived, x);
      const CopyTicket op = m.ops.start_on_host(calls::Cast{rounded, arrived}, in);
      const CopyTicket out = copies.start(back, rounded, op);
      copies.wait(out);
      CHECK(copies.idle());  // what the last one came after has ended too
      copies.wait(copies.start(checked, back));
      m.ops.synchronize();
      CHECK(std::memcmp(checked->data, rounded->data, rounded->bytes()) == 0);
      bool right = true;
      for (int64_t i = 0; i < TwoMemories::kCount; ++i)
        right = right && std::abs(float(rounded->ptr<bf16>()[i]) - values->ptr<float>()[i]) <= 0x1p-8f;
      CHECK(right);
    }
  }
}

TEST_CASE("an op of the host that races with a copy, or uses device memory, is refused") {
  const Backend& b = backends().front();
  TwoMemories m(b);
  Copies& copies = m.ops.copies();
  const ArenaTensor x = m.on_device(), h = m.on_host(), narrow = m.on_host(TwoMemories::kCount, DType::bf16),
                    y = m.on_device(TwoMemories::kCount, DType::bf16);
  m.ops.zero({x});
  SECTION("it reads what a copy fills") {
    const CopyTicket in = copies.start(h, x);
    CHECK_THROWS_AS(m.ops.start_on_host(calls::Cast{narrow, h}), InternalError);
    CHECK_NOTHROW(m.ops.start_on_host(calls::Cast{narrow, h}, in));
  }
  SECTION("a copy reads what it writes") {
    const CopyTicket op = m.ops.start_on_host(calls::Zero{narrow});
    CHECK_THROWS_AS(copies.start(y, narrow), InternalError);
    CHECK_NOTHROW(copies.start(y, narrow, op));
  }
  SECTION("a copy fills what it reads, ordered only through another copy") {
    const CopyTicket in = copies.start(h, x);
    const CopyTicket op = m.ops.start_on_host(calls::Cast{narrow, h}, in);
    CHECK_THROWS_AS(copies.start(h, x, in), InternalError);
    const CopyTicket out = copies.start(y, narrow, op);
    CHECK_NOTHROW(copies.start(h, x, out));
  }
  SECTION("its memory is released") {
    ArenaTensor other = m.on_host();
    const CopyTicket op = m.ops.start_on_host(calls::Zero{other});
    CHECK_THROWS_AS(other.reset(), InternalError);
    copies.wait(op);
    CHECK_NOTHROW(other.reset());
  }
  SECTION("a tensor is in device memory") {
    CHECK_THROWS_WITH(m.ops.start_on_host(calls::Zero{x}), Catch::Contains("in device memory"));
    CHECK_THROWS_AS(m.ops.start_on_host(calls::Cast{narrow, narrow->slice(0, 3)}), InternalError);
  }
  copies.wait_for_all();
}
