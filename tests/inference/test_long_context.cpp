// Recall and the loss by position, against values that are known or computed in another way.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "base/philox.h"
#include "data/prepare/prepare.h"
#include "exec/rig.h"
#include "inference/evaluation.h"
#include "inference/needle_eval.h"
#include "ops/backends.h"
#include "support/temporary_folder.h"
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

  PositionLosses losses(kLength, kRows, kLength);
  rig.executor.evaluate(std::span(&b, 1), [&](size_t, std::span<const TargetLoss> targets) {
    for (const TargetLoss& t : targets) losses.add({t.row, t.position}, t.position, t.loss);
  });
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
  CHECK(PositionLosses(64, kRows, 64).means().empty());
  CHECK_FALSE(losses.comparison());

  // A pass over the tokens before the end of a range gives the losses of these targets, too.
  for (const PositionLoss& p : found) {
    Batch part;
    part.resize(kRows, p.end);
    part.sample_ids = b.sample_ids;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto copy = [&](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
        std::copy_n(from.begin() + row * kLength, p.end, to.begin() + row * p.end);
      };
      copy(b.tokens, part.tokens);
      copy(b.targets, part.targets);
      copy(b.positions, part.positions);
      copy(b.doc_start, part.doc_start);
      std::fill_n(part.targets.begin() + row * p.end, p.begin, kIgnoredTarget);
    }
    double sum = 0;
    for (const double row : rig.executor.row_losses(part)) sum += row;
    CHECK(p.loss == Approx(sum / static_cast<double>(p.tokens)).epsilon(1e-6));
  }
}

namespace {

// The losses of each target by position, collected one by one.
using LossesOfTargets = std::map<int64_t, std::map<int64_t, double>>;  // by offset and position

// Returns the mean over targets of the difference of their mean losses in two ranges, its standard error over passages
// of `length` offsets, and the number of targets.
std::array<double, 3> compare_targets(const LossesOfTargets& losses, const ComparedRanges& ranges, int64_t length) {
  std::map<int64_t, std::array<double, 2>> passages;  // sum of differences, targets
  for (const auto& [offset, at] : losses) {
    double sums[2] = {}, counts[2] = {};
    for (const auto& [position, loss] : at)
      for (const size_t i : {0, 1})
        if (ranges[i].begin <= position && position < ranges[i].end) sums[i] += loss, counts[i] += 1;
    if (counts[0] == 0 || counts[1] == 0) continue;
    auto& [difference, targets] = passages[offset / length];
    difference += sums[0] / counts[0] - sums[1] / counts[1];
    targets += 1;
  }
  double difference = 0, targets = 0, squares = 0;
  for (const auto& [passage, sums] : passages) difference += sums[0], targets += sums[1];
  for (const auto& [passage, sums] : passages) squares += std::pow(sums[0] - difference / targets * sums[1], 2);
  const auto n = static_cast<double>(passages.size());
  return {difference / targets, std::sqrt(squares * n / (n - 1)) / targets, targets};
}

}  // namespace

TEST_CASE("two ranges are compared over the same targets, whatever the text is", "[inference]") {
  constexpr int64_t kLength = 200, kTokens = 5 * kLength + 37;
  const ComparedRanges ranges{PositionRange{32, 64}, PositionRange{100, 200}};
  // Much noise from the text, and a context that gains a quarter everywhere, or more in later passages.
  const auto noise = [](int64_t offset) { return std::sin(static_cast<double>(offset * offset)) * 3; };
  for (const int64_t stride : {1, 32, 50, 100})
    for (const bool same : {true, false}) {
      CAPTURE(stride, same);
      PositionLosses losses(kLength, kTokens, stride, ranges);
      LossesOfTargets all;
      for (int64_t begin = 0; begin < kTokens; begin += stride)
        for (int64_t p = 0; p < kLength && begin + p < kTokens; ++p) {
          const int64_t offset = begin + p, passage = offset / kLength;
          const double gain = same ? (p >= 100 ? 0.25 : 0) : static_cast<double>(p * (passage + 1)) / 1000;
          const double loss = noise(offset) - gain;
          losses.add({passage, offset}, p, loss);
          all[offset][p] = loss;
        }
      const auto found = losses.comparison();
      REQUIRE(found);
      const auto [difference, error, targets] = compare_targets(all, ranges, kLength);
      CHECK(found->difference == Approx(difference).epsilon(1e-9));
      CHECK(found->standard_error == Approx(error).epsilon(1e-6).margin(1e-12));
      CHECK(found->first.tokens == static_cast<int64_t>(targets));
      CHECK(found->first.loss - found->second.loss == Approx(difference).epsilon(1e-9));
      CHECK(found->passages == 6);
      if (!same) continue;
      CHECK(found->difference == Approx(0.25).epsilon(1e-9));
      CHECK(found->standard_error < 1e-9);
      CHECK(found->first.standard_error > 0.01);  // what a difference of unpaired means would hide in
    }
}

TEST_CASE("a comparison of positions that cannot be made is refused with what is legal", "[inference]") {
  const auto refused = [](const std::string& text) {
    return refusal([&] { parse_compared_ranges("--compare", text, 4096); });
  };
  CHECK(refused("128-256,1024-4096").empty());
  for (const char* const text : {"", "128-256", "128-256,", "128,256", "-1-5,6-7", "1-2,3-4,5-6", "a-b,c-d", "1-2 3-4"})
    CHECK_THAT(refused(text), Contains(fmt::format("--compare {}: legal: two ranges", text)));
  CHECK_THAT(refused("128-256,1024-4097"), Contains("the range 1024-4097") && Contains("data.seq_len = 4096"));
  CHECK_THAT(refused("256-256,1024-4096"), Contains("the range 256-256 has no positions"));
  const auto ranges = parse_compared_ranges("--compare", "128-256,1024-4096", 4096);
  CHECK(refusal([&] { check_compared_ranges(ranges, 3072); }).empty());
  CHECK_THAT(refusal([&] { check_compared_ranges(ranges, 3073); }),
             Contains("a stride of 3073 tokens is too long") && Contains("legal: up to 3072"));
}

TEST_CASE("an evaluation of overlapping samples compares the losses that the model has", "[inference]") {
  const TemporaryFolder dir;
  std::string text;
  for (int i = 0; i < 90; ++i) text += fmt::format("line {} of {}\n", i * i, i);
  write_text(dir / "text.txt", text);
  PrepareOptions prepared;
  prepared.corpus.files = {dir / "text.txt"};
  prepared.corpus.documents = "line";
  prepared.tokenizer = "bytes";
  prepared.out = dir / "data";
  prepared.validation_fraction = 0.5;
  prepare(prepared);
  constexpr int64_t kLength = 96, kStride = 20, kMicroBatch = 3;
  DataSection data;
  data.train = {{(dir / "data").string(), 1.0}};
  data.seq_len = kLength;
  const ValidationSampler sampler(data, 0, {}, kStride);
  ModelSection m = tiny_model("llama");
  m.vocab = 257;
  m.max_position = kLength;
  Rig rig(make_cpu_ops(), m, DType::f32, Recompute::none, {}, kLength);
  const ComparedRanges ranges{PositionRange{0, 20}, PositionRange{50, 96}};
  const EvaluationResult r =
      evaluate(rig.executor, sampler, rig.groups, {.micro_batch = kMicroBatch, .by_position = true, .compare = ranges});
  LossesOfTargets all;
  for (int64_t s = 0; s < sampler.size(); ++s) {
    Batch b;
    sampler.fill(static_cast<uint64_t>(s), 1, b);
    rig.executor.evaluate(std::span(&b, 1), [&](size_t, std::span<const TargetLoss> targets) {
      for (const TargetLoss& t : targets) all[s * kStride + t.position][t.position] = t.loss;
    });
  }
  CHECK(all.size() == sampler.datasets().front()->tokens());
  const auto [difference, error, targets] = compare_targets(all, ranges, kLength);
  REQUIRE(r.comparison);
  CHECK(r.comparison->difference == Approx(difference).epsilon(1e-4));
  CHECK(r.comparison->standard_error == Approx(error).epsilon(1e-3));
  CHECK(r.comparison->first.tokens == static_cast<int64_t>(targets));
  CHECK(r.comparison->first.tokens > static_cast<int64_t>(all.size()) - kLength);
}
