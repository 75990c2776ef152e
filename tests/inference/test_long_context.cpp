// Recall and the loss by position, against values that are known or computed in another way.
#include <catch2/catch.hpp>
#include <cmath>

#include "base/philox.h"
#include "exec/rig.h"
#include "inference/evaluation.h"
#include "inference/needle_eval.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;
using Catch::Contains;

namespace {

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

// A model over bytes that can only say "A", so that it recalls the values "AA" and no others.
ModelSection says_a() {
  ModelSection m = tiny_model("llama");
  m.vocab = 257;
  m.max_position = 64;
  for (int32_t id = 0; id < 257; ++id)
    if (id != 'A') m.masked_ids.push_back(id);
  return m;
}

}  // namespace

TEST_CASE("recall counts the answers of which every token is right", "[inference]") {
  const auto tokenizer = load_tokenizer("bytes");
  const KeyValueTexts texts(*tokenizer, Filler(std::vector<int32_t>(11, '.'), 256));
  Rig rig(make_cpu_ops(), says_a(), DType::f32, Recompute::none, {}, 64);
  NeedleOptions o;
  o.lengths = {32, 40};
  o.depths = {0, 100};
  o.samples = 1200;
  std::vector<int64_t> done;
  const std::vector<NeedleRecall> all =
      measure_recall(rig.model, *tokenizer, texts, o, [&](int64_t n) { done.push_back(n); });
  REQUIRE(all.size() == 4);
  CHECK(done.back() == 4 * o.samples);
  // A value is "AA" once in 676 times.
  int64_t right = 0;
  for (const NeedleRecall& r : all) {
    CHECK(r.samples == o.samples);
    CHECK(r.right < 12);
    right += r.right;
  }
  CHECK(right > 0);
  CHECK(all[1].length == 32);
  CHECK(all[1].depth == 100);
  // The samples of the cell at length 40 and depth 0, by hand.
  int64_t expected = 0;
  for (uint64_t i = 0; i < static_cast<uint64_t>(o.samples); ++i)
    expected += tokenizer->decode(texts.needle(40, o.depths, 0, {o.seed, i, kNeedleStream}).answer) == "AA" ? 1 : 0;
  CHECK(all[2].right == expected);
}

TEST_CASE("recall that cannot be measured is refused with what is legal", "[inference]") {
  const auto tokenizer = load_tokenizer("bytes");
  const KeyValueTexts texts(*tokenizer, Filler(std::vector<int32_t>(11, '.'), 256));
  const NeedleOptions good{.lengths = {64}, .depths = {0, 50}};
  const auto refused = [&](auto change) {
    NeedleOptions o = good;
    change(o);
    return refusal([&] { check_needle_options(o, texts); });
  };
  CHECK(refused([](NeedleOptions&) {}).empty());
  CHECK_THAT(refused([](auto& o) { o.samples = 0; }), Contains("--samples 0") && Contains("legal: 1 or more"));
  CHECK_THAT(refused([](auto& o) { o.depths = {101}; }), Contains("--depths 101: legal: 0 to 100"));
  CHECK_THAT(refused([](auto& o) { o.depths = {5, 5}; }), Contains("a depth is given twice"));
  CHECK_THAT(refused([](auto& o) { o.depths = {}; }), Contains("legal: 1 to 256"));
  CHECK_THAT(refused([](auto& o) { o.lengths = {17}; }), Contains("--lengths 17: 2 pairs") && Contains("legal: 18"));
  CHECK_THAT(refused([](auto& o) { o.lengths = {64, 64}; }), Contains("a length is given twice"));
  CHECK_THAT(refused([](auto& o) { o.lengths = {}; }), Contains("name at least one length"));
}

TEST_CASE("the loss by position is that of the tokens of each range", "[inference]") {
  ModelSection m = tiny_model("llama");
  constexpr int64_t kLength = 150, kRows = 5;
  m.max_position = kLength;
  Rig rig(make_cpu_ops(), m, DType::f32, Recompute::none, {}, kLength);
  Batch b;
  b.resize(kRows, kLength);
  for (size_t i = 0; i < b.tokens.size(); ++i) {
    const auto w = Philox::block({static_cast<uint32_t>(i), 0, 0, 0}, {3, 4});
    b.tokens[i] = static_cast<int32_t>(w[0] % 37);
    b.targets[i] = w[1] % 4 == 0 ? kIgnoredTarget : static_cast<int32_t>(w[2] % 37);
    b.positions[i] = static_cast<int32_t>(static_cast<int64_t>(i) % kLength);
    b.doc_start[i] = 0;
  }
  // The last row has targets in the first range only.
  std::fill(b.targets.begin() + 4 * kLength + 60, b.targets.end(), kIgnoredTarget);

  PositionLosses losses(kLength);
  losses.add(rig.executor, b, true);
  losses.add(rig.executor, b, false);
  losses.sum_over(rig.groups);
  const std::vector<PositionLoss> found = losses.means();
  REQUIRE(found.size() == 3);

  const std::vector<float> logits = rig.executor.logits(b);
  const auto loss_of = [&](size_t i) {
    const auto row = std::span(logits).subspan(i * 37, 37);
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x));
    return std::log(sum) - static_cast<double>(row[static_cast<size_t>(b.targets[i])]);
  };
  const std::vector<std::string> labels = {"0-64", "64-128", "128-150"};
  for (size_t range = 0; range < 3; ++range) {
    const PositionLoss& p = found[range];
    CHECK(p.label() == labels[range]);
    std::vector<double> sums, counts;
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0, count = 0;
      for (int64_t t = p.begin; t < p.end; ++t) {
        const auto i = static_cast<size_t>(row * kLength + t);
        if (b.targets[i] == kIgnoredTarget) continue;
        sum += loss_of(i);
        count += 1;
      }
      if (count > 0) {
        sums.push_back(sum);
        counts.push_back(count);
      }
    }
    double l = 0, n = 0, squares = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      l += sums[i];
      n += counts[i];
    }
    for (size_t i = 0; i < sums.size(); ++i) squares += std::pow(sums[i] - l / n * counts[i], 2);
    const auto samples = static_cast<double>(sums.size());
    CHECK(p.tokens == static_cast<int64_t>(n));
    CHECK(p.loss == Approx(l / n).epsilon(1e-5));
    CHECK(p.standard_error == Approx(std::sqrt(squares * samples / (samples - 1)) / n).epsilon(1e-3));
  }
  CHECK(PositionLosses(64).means().empty());
}
