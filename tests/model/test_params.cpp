#include <catch2/catch.hpp>
#include <cmath>

#include "model/architecture.h"
#include "model/param_store.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("joined parameters form one matrix", "[model]") {
  ParamTable table;
  declare_parameters(tiny_model("llama"), table);
  const ParamId q = table.find("model.layers.1.self_attn.q_proj.weight"),
                v = table.find("model.layers.1.self_attn.v_proj.weight");
  REQUIRE(v == q + 2);
  Arena arena(host_memory(1 << 22, false), 1 << 22);
  const ParamStore store(table, {DType::bf16}, arena);
  CHECK(store.weight(q, v).shape == Shape{16 + 8 + 8, 16});
  CHECK(store.weight(q).dtype == DType::bf16);
  CHECK(store.grad(q).dtype == DType::f32);
  CHECK_THROWS_AS(store.weight(q - 1, q), InternalError);  // a norm, then a gap
}

TEST_CASE("weight decay applies to matrices only", "[model]") {
  for (const std::string& name : tiny_names()) {
    ParamTable table;
    declare_parameters(tiny_model(name), table);
    for (const Param& p : table) CHECK(p.decay == (p.shape.rank() == 2));
  }
}

TEST_CASE("initial values follow the init rule and do not depend on the partition", "[model]") {
  ModelSection m = tiny_model("gpt");
  m.hidden = 64;
  m.head_dim = 16;
  m.ffn = 256;
  m.vocab = 1000;
  m.pad_vocab_to = 128;
  m.init_std = 0.02;
  const auto ops = make_ref_ops();
  const auto values = [&](int tp, int index, const std::string& name) {
    ParamTable table(tp, index);
    declare_parameters(m, table);
    Arena arena(host_memory(size_t{16} << 20, false), size_t{16} << 20);
    ParamStore store(table, {DType::f32}, arena);
    store.initialize(*ops, 7);
    std::vector<float> v(static_cast<size_t>(table[table.find(name)].local_elements()));
    ops->copy_out({v.data(), store.weight(table.find(name))});
    return v;
  };
  const auto deviation = [](const std::vector<float>& v, size_t n) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; ++i) sum += v[i], squares += static_cast<double>(v[i]) * v[i];
    CHECK(std::abs(sum / static_cast<double>(n)) < 5 * 0.02 / std::sqrt(static_cast<double>(n)));
    return std::sqrt(squares / static_cast<double>(n));
  };
  const std::vector<float> wte = values(1, 0, "wte.weight");
  CHECK(deviation(wte, 1000 * 64) == Approx(0.02).epsilon(0.02));
  for (size_t i = 1000 * 64; i < wte.size(); ++i) REQUIRE(wte[i] == 0.0f);
  const std::vector<float> down = values(1, 0, "h.1.mlp.c_proj.weight");
  CHECK(deviation(down, down.size()) == Approx(0.02 / std::sqrt(4.0)).epsilon(0.03));
  CHECK(values(1, 0, "h.1.ln_1.weight") == std::vector<float>(64, 1.0f));

  // Two tensor-parallel ranks hold the two halves of the same values.
  for (int r = 0; r < 2; ++r) {
    const std::vector<float> rows = values(2, r, "wte.weight");
    CHECK(std::equal(rows.begin(), rows.end(), wte.begin() + r * 512 * 64));
    const std::vector<float> part = values(2, r, "h.1.mlp.c_proj.weight");
    for (size_t row = 0; row < 64; ++row)
      CHECK(std::equal(part.begin() + static_cast<long>(row * 128), part.begin() + static_cast<long>((row + 1) * 128),
                       down.begin() + static_cast<long>(row * 256) + r * 128));
    const std::vector<float> qkv = values(2, r, "h.0.attn.c_attn.weight"),
                             whole = values(1, 0, "h.0.attn.c_attn.weight");
    for (size_t piece = 0; piece < 3; ++piece)
      CHECK(std::equal(qkv.begin() + static_cast<long>(piece * 32 * 64),
                       qkv.begin() + static_cast<long>((piece + 1) * 32 * 64),
                       whole.begin() + static_cast<long>(piece * 64 * 64) + r * 32 * 64));
  }
}
