#include <catch2/catch.hpp>
#include <cmath>

#include "model/architecture.h"

using namespace fp;

namespace {

double w(const RopeSpec& r, int64_t d, size_t i) { return rope_frequencies(r, d, 1 << 20)[i]; }

RopeSpec llama3(double factor) {
  RopeSpec r;
  r.kind = RopeKind::llama3;
  r.theta = 5e5;
  r.factor = factor;
  r.original_max_position = 8192;
  return r;
}

}  // namespace

TEST_CASE("llama3 rope keeps high frequencies and divides low ones and blends in between", "[model]") {
  // Expected counts and values: Llama 3.1's published rule, worked out for d = 128 and 64.
  for (const auto& [d, kept, blended, divided] : {std::array<int64_t, 4>{128, 29, 6, 29}, {64, 15, 3, 14}}) {
    RopeSpec plain;
    plain.theta = 5e5;
    const RopeSpec r = llama3(8);
    int64_t counts[3] = {0, 0, 0};
    for (size_t i = 0; i < static_cast<size_t>(d / 2); ++i) {
      const double a = w(plain, d, i), b = w(r, d, i);
      ++counts[b == a ? 0 : std::abs(b * 8 - a) < 1e-6 * a ? 2 : 1];
    }
    CHECK((counts[0] == kept && counts[1] == blended && counts[2] == divided));
  }
  CHECK(w(llama3(8), 128, 34) == Approx(1.785078e-4).epsilon(1e-6));
  CHECK(w(llama3(8), 128, 35) == Approx(9.556212e-5).epsilon(1e-6));
}

TEST_CASE("linear rope scaling divides frequencies and position_scale multiplies them", "[model]") {
  RopeSpec r;
  r.kind = RopeKind::linear;
  r.factor = 4;
  CHECK(w(r, 8, 1) == Approx(std::pow(1e4, -0.25) / 4));
  RopeSpec s;
  s.position_scale = 2;
  const RopeTable doubled = make_rope_table(s, 8, 16, 4, 4), plain = make_rope_table(RopeSpec{}, 8, 16, 8, 8);
  for (size_t i = 0; i < 4; ++i) CHECK(doubled.cos[3 * 4 + i] == plain.cos[6 * 4 + i]);
}

TEST_CASE("longrope selects factors by length and scales cos and sin", "[model]") {
  RopeSpec r;
  r.kind = RopeKind::longrope;
  r.original_max_position = 4096;
  r.short_factor = {1.0, 2.0};
  r.long_factor = {4.0, 8.0};
  CHECK(rope_frequencies(r, 4, 4096)[1] == Approx(std::pow(1e4, -0.5) / 2));
  CHECK(rope_frequencies(r, 4, 4097)[1] == Approx(std::pow(1e4, -0.5) / 8));
  CHECK(rope_attention_factor(r, 131072, 100) == Approx(1.1902380714238083).epsilon(1e-15));
  CHECK(std::pow(rope_attention_factor(r, 131072, 5000), 2) == Approx(17.0 / 12));
  CHECK(rope_attention_factor(r, 4096, 100) == 1.0);
  r.scale_short = false;
  CHECK(rope_attention_factor(r, 131072, 100) == 1.0);
  r.attention_factor = 1.5;
  CHECK(rope_attention_factor(r, 131072, 5000) == 1.5);
  CHECK(make_rope_table(r, 4, 131072, 8, 5000).cos[0] == 1.5f);
}

TEST_CASE("phi-3-small alternates blocksparse and dense layers with the published pattern", "[model]") {
  ModelSection m;
  m.family = Family::phi3small;
  m.layers = 4;
  m.hidden = 4096;
  m.heads = 32;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.ffn = 64;
  m.vocab = 100;
  m.mup = {10, 8, 1};
  const Architecture a = make_architecture(m);
  CHECK_FALSE(a.dense_layer(0));
  CHECK(a.dense_layer(1));
  CHECK(a.attention_scale == Approx(1.0 / 128));
  CHECK(a.attention(1).block == 0);
  const AttentionSpec s = a.attention(0);
  // Kept blocks at T = 8192, heads 0..7 (128 x 128 blocks of 64).
  const int expected[8] = {2670, 2684, 2698, 2712, 2726, 2740, 2754, 2768};
  for (int64_t head = 0; head < 8; ++head) {
    int kept = 0;
    for (int64_t qb = 0; qb < 128; ++qb)
      for (int64_t kb = 0; kb <= qb; ++kb) kept += attends(s, head, qb * 64 + 63, kb * 64);
    CHECK(kept == expected[head]);
  }
  m.blocksparse.dense_every = 0;
  const Architecture dense = make_architecture(m);
  for (int64_t l = 0; l < m.layers; ++l) CHECK(dense.dense_layer(l));
}
