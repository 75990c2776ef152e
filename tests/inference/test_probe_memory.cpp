// The memory of a probe: what its outputs need, and no more.
#include <catch2/catch.hpp>

#include "inference/probe.h"
#include "model/architecture.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("a probe holds gradients and optimizer state only for outputs that need them", "[inference]") {
  ModelSection m = tiny_model("llama");
  m.hidden = 256;
  m.heads = m.kv_heads = 4;
  m.head_dim = 64;
  m.ffn = 1024;
  ProbeOptions o;
  o.tokens = {{1, 2, 3, 4}};
  ParamTable table;
  declare_parameters(m, table);
  const auto states = [&](bool gradients, bool update, DType precision) {
    o.gradients = gradients;
    o.update = update;
    o.precision = precision;
    const auto ops = make_counting_ops();
    const auto bytes = static_cast<double>(probe_bytes(m, o, *ops, make_self_groups()));
    return bytes / static_cast<double>(table.flat_elements());
  };
  CHECK(states(false, false, DType::f32) == Approx(4).margin(0.5));  // bytes per parameter
  CHECK(states(true, false, DType::f32) == Approx(4 + 4).margin(0.5));
  CHECK(states(true, true, DType::f32) == Approx(4 + 4 + 8).margin(0.5));
  CHECK(states(false, false, DType::bf16) == Approx(2).margin(0.5));
  CHECK(states(true, false, DType::bf16) == Approx(2 + 4).margin(0.5));
  CHECK(states(false, true, DType::bf16) == Approx(2 + 4 + 4 + 8).margin(0.5));
}
