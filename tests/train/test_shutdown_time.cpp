#include <catch2/catch.hpp>

#include "train/shutdown_time.h"

using namespace fp;

TEST_CASE("the expected step and save times are the longest recent ones") {
  ShutdownTime t(4e9, 1);
  CHECK(t.step_s() == 0);
  CHECK(t.save_s() == Approx(4e9 / ShutdownTime::kSaveRate));
  t.save_took(30);
  CHECK(t.save_s() == 30);
  t.save_took(10);
  CHECK(t.save_s() == 30);
  for (int i = 0; i < 5; ++i) t.save_took(10);
  CHECK(t.save_s() == 10);
  t.step_took(7);
  for (int i = 0; i < 50; ++i) t.step_took(2);
  CHECK(t.step_s() == 7);
  for (int i = 0; i < 100; ++i) t.step_took(2);
  CHECK(t.step_s() == 2);
}

TEST_CASE("the first save is estimated from all ranks' rate, or a measured rate") {
  const double bytes = 405e9 * 12;
  const ShutdownTime many(bytes, 4096);
  CHECK(many.save_s() == Approx(bytes / (4096 * ShutdownTime::kSaveRate)));
  CHECK_FALSE(many.must_stop(4 * 3600, false, {}));
  CHECK(ShutdownTime(bytes, 1).must_stop(4 * 3600, false, {}));
  CHECK(ShutdownTime(bytes, 4096, 1e9).save_s() == Approx(bytes / 1e9));
}

TEST_CASE("the longest recent evaluation is expected however many steps ago it was") {
  ShutdownTime t(0, 1);
  CHECK(t.evaluation_s() == 0);
  t.evaluation_took(7);
  for (int i = 0; i < 200; ++i) t.step_took(4);
  CHECK(t.evaluation_s() == 7);
}

TEST_CASE("the save of an earlier start counts more on fewer ranks") {
  const auto after = [](double seconds, std::optional<int> ranks) {
    ShutdownTime t(4e9, 2);  // estimated to take 10 s
    t.earlier_save_took(seconds, ranks);
    return t.save_s();
  };
  CHECK(after(30, 2) == 30);
  CHECK(after(30, 8) == 120);
  CHECK(after(30, 1) == 30);
  CHECK(after(3, std::nullopt) == 10);
  CHECK(after(30, std::nullopt) == 30);
}

TEST_CASE("a run stops while there is time for one more step, what is due and all remaining saves") {
  ShutdownTime t(0, 1);
  t.step_took(5);
  t.save_took(20);
  t.evaluation_took(100);
  // Enough seconds for a step and the last save, plus what is in progress or due.
  struct Row {
    double enough;
    bool under_way;
    ShutdownTime::Due due;
  };
  for (const Row& r : {Row{25, false, {}},
                       {45, true, {}},
                       {45, false, {.save = true}},
                       {65, true, {.save = true}},
                       {125, false, {.evaluation = true}},
                       {120, false, {.evaluation = true, .step = false}},
                       {165, true, {true, true}}}) {
    CAPTURE(r.enough, r.under_way, r.due.evaluation, r.due.save, r.due.step);
    CHECK_FALSE(t.must_stop(r.enough, r.under_way, r.due));
    CHECK(t.must_stop(r.enough - 0.1, r.under_way, r.due));
  }
}
