#include <catch2/catch.hpp>
#include <cmath>

#include "report/history.h"

using namespace fp;

namespace {

StepMetrics loss_at(int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.loss = loss;
  m.grad_norm = 1;
  m.tokens = step * 100;
  m.tokens_per_s = 1000;
  return m;
}

}  // namespace

TEST_CASE("the speed of all steps is their tokens by their time") {
  History h;
  for (int64_t step = 1; step <= 100; ++step) {
    StepMetrics m = loss_at(step, 1);
    m.step_ms = step == 50 ? 10000 : 100;
    m.tokens_per_s = 1000 / m.step_ms * 1e3;
    m.mfu = m.tokens_per_s / 20000;
    h.add(m);
  }
  const double seconds = 99 * 0.1 + 10;
  CHECK(h.tokens_per_s() == Approx(100 * 1000 / seconds));
  CHECK(h.mfu() == Approx(100 * 1000 / seconds / 20000));
}

TEST_CASE("a short run keeps every step") {
  History h;
  for (int64_t step = 1; step <= 500; ++step) h.add(loss_at(step, 1.0 / static_cast<double>(step)));
  REQUIRE(h.buckets().size() == 500);
  CHECK(h.buckets()[41].first == 42);
  CHECK(h.buckets()[41].last == 42);
  CHECK(h.buckets()[41][Channel::loss].mean() == 1.0 / 42);
  CHECK(h.steps() == 500);
}

TEST_CASE("buckets of a long run keep every step, the extremes and both ends") {
  History h;
  constexpr int64_t kSteps = 300000;
  double sum = 0;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const double loss = step == 123456 ? 99.0 : step == 234567 ? -7.0 : 2.0 + 1.0 / static_cast<double>(step);
    sum += loss;
    h.add(loss_at(step, loss));
  }
  CHECK(h.buckets().size() <= History::kMaxBuckets);
  CHECK(h.buckets().size() >= 500);
  Extent all;
  int64_t next = 1;
  for (const Bucket& b : h.buckets()) {
    CHECK(b.first == next);
    next = b.last + 1;
    CHECK(b[Channel::loss].count == b.last - b.first + 1);
    CHECK(b.tokens == b.last * 100);
    // Buckets are narrow on a linear and on a logarithmic axis.
    CHECK(b.last - b.first + 1 <= kSteps / 500);
    if (b.last > b.first) CHECK(std::log(static_cast<double>(b.last) / static_cast<double>(b.first)) < 0.07);
    all.add(b[Channel::loss]);
  }
  CHECK(next == kSteps + 1);
  CHECK(all.min == -7.0);
  CHECK(all.max == 99.0);
  CHECK(all.sum == Approx(sum));
}

TEST_CASE("buckets follow step numbers even if only some steps are logged") {
  History h;
  for (int64_t step = 1000000; step <= 9000000; step += 1000) h.add(loss_at(step, 2));
  CHECK(h.buckets().size() <= History::kMaxBuckets);
  CHECK(h.buckets().front().first == 1000000);
  CHECK(h.buckets().back().last == 9000000);
}

TEST_CASE("values that are not finite leave gaps but do not spoil the statistics") {
  History h;
  h.add(loss_at(1, 3));
  h.add(loss_at(2, StepMetrics::kUnknown));
  h.add(loss_at(3, INFINITY));
  h.add(loss_at(4, 1));
  CHECK(h.buckets()[1][Channel::loss].count == 0);
  CHECK(std::isnan(h.buckets()[1][Channel::loss].mean()));
  const auto smooth = h.smoothed(Channel::loss);
  REQUIRE(smooth.size() == 4);
  for (const double v : smooth) CHECK(std::isfinite(v));
  CHECK(smooth[0] == 3.0);
  CHECK(smooth[1] == 3.0);
  CHECK(smooth[3] >= 1.0);
  CHECK(smooth[3] < 3.0);
  CHECK(std::isnan(h.smoothed(Channel::mfu).back()));
}

TEST_CASE("the moving average of a constant is the constant, and it follows a falling curve") {
  History flat, falling;
  for (int64_t step = 1; step <= 10000; ++step) {
    flat.add(loss_at(step, 2.5));
    falling.add(loss_at(step, 10 * std::exp(-static_cast<double>(step) / 200)));
  }
  for (const double v : flat.smoothed(Channel::loss)) CHECK(v == Approx(2.5));
  const auto smooth = falling.smoothed(Channel::loss);
  for (size_t i = 0; i < smooth.size(); ++i) {
    const double raw = falling.buckets()[i][Channel::loss].mean();
    CHECK(smooth[i] >= raw * 0.999);
    CHECK(smooth[i] < raw + 1.2);
  }
}

TEST_CASE("the moving average does not lag behind a straight line") {
  for (const int64_t steps : {60, 5000}) {
    History h;
    for (int64_t step = 1; step <= steps; ++step) h.add(loss_at(step, 100 - static_cast<double>(step) / 50));
    const auto smooth = h.smoothed(Channel::loss);
    for (size_t i = smooth.size() / 4; i < smooth.size() * 3 / 4; ++i)
      CHECK(smooth[i] == Approx(h.buckets()[i][Channel::loss].mean()).margin(0.1));
  }
}

TEST_CASE("MFU is known if the last steps have it and more than a few do") {
  const auto history = [](const std::vector<double>& mfu) {
    History h;
    for (const double value : mfu) {
      StepMetrics m = loss_at(h.steps() + 1, 2);
      m.mfu = value;
      h.add(m);
    }
    return h;
  };
  CHECK_FALSE(History().knows_mfu());
  CHECK_FALSE(history({0.69, StepMetrics::kUnknown, StepMetrics::kUnknown}).knows_mfu());
  CHECK_FALSE(history({0.4, 0.4}).knows_mfu());
  CHECK(history({StepMetrics::kUnknown, 0.4, 0.4, 0.4}).knows_mfu());
  CHECK_FALSE(history({0.4, 0.4, 0.4, 0.4, StepMetrics::kUnknown}).knows_mfu());
}

TEST_CASE("evaluations, resumes and skipped steps are recorded") {
  History h;
  for (int64_t step = 1; step <= 9000; ++step) {
    StepMetrics m = loss_at(step, 2);
    m.val_loss = std::abs(static_cast<double>(step) - 7001) / 1000 + 1;
    m.skipped = step % 50 == 0;
    m.resumed = step == 4500;
    h.add(m);
  }
  CHECK(h.evaluations().size() <= History::kMaxBuckets + 1);
  CHECK(h.evaluations().front().step == 1);
  CHECK(h.evaluations().back().step == 9000);
  REQUIRE(h.best_evaluation());
  CHECK(h.best_evaluation()->step == 7001);
  CHECK(h.resumed_steps() == std::vector<int64_t>{4500});
  CHECK(h.skipped_count() == 180);
  CHECK(h.skipped_steps().size() == History::kMaxMarks);
}

TEST_CASE("an empty history is not an error") {
  const History h;
  CHECK(h.buckets().empty());
  CHECK(h.smoothed(Channel::loss).empty());
  CHECK_FALSE(h.last());
}
