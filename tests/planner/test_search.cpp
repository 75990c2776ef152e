// Compares the search with brute force, with a fake estimator.
#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "fake_estimator.h"
#include "planner/candidates.h"
#include "planner/report.h"
#include "planner/search.h"
#include "small_cluster.h"

using namespace fp;

namespace {

RunSpec spec_of(const std::string& more = "parallel: auto", const std::string& train = "global_batch: 32") {
  return parse_run_spec(
      "{model: {layers: 12, hidden: 768, heads: 12, vocab: 50257}, train: {" + train + "}, " + more + "}", "t");
}

double brute_force(const RunSpec& spec, int ranks, const FakeEstimator& estimator, const ClusterSpec& cluster,
                   bool quantizes = true) {
  double best = std::numeric_limits<double>::infinity();
  for (const Plan& p : Candidates(spec, ranks, cluster).all())
    if (const Estimate e = estimator.exact(with_plan(spec, p), ranks);
        e.memory.fits() && (quantizes || p.gradient_bits == 0))
      best = std::min(best, e.time.total);
  return best;
}

// Returns the number of plans that quantize gradients.
int check_like_brute_force(const RunSpec& spec, std::initializer_list<int> all_ranks,
                           std::initializer_list<double> sizes) {
  int quantized = 0;
  const ClusterSpec cluster = small_cluster(4);
  for (const int ranks : all_ranks)
    for (const double gib : sizes) {
      FakeEstimator estimator(gib);
      const double best = brute_force(spec, ranks, estimator, cluster);
      const Search s = search(spec, ranks, cluster, estimator, {1e6, 100000});
      INFO(ranks << " ranks of " << gib << " GiB: " << s.quick_estimates << " quick estimates, " << s.estimates
                 << " estimates");
      CHECK(s.complete());
      CHECK(s.best.has_value() == (best < std::numeric_limits<double>::infinity()));
      if (!s.best) continue;
      const double exact = brute_force(spec, ranks, estimator, cluster, false);
      const bool is_worth_it = exact > 1.03 * best;
      CHECK((s.best->plan.gradient_bits > 0) == is_worth_it);
      quantized += is_worth_it;
      CHECK(s.best->estimate.time.total == (is_worth_it ? best : exact));
      CHECK(s.best->estimate.memory.fits());
      CHECK(with_plan(spec, s.best->plan).parallel.open.empty());
      CHECK(s.quick_estimates < static_cast<int>(Candidates(spec, ranks, cluster).all().size()));
    }
  return quantized;
}

}  // namespace

TEST_CASE("the search finds the same plan as brute force with fewer estimates", "[planner][search][slow]") {
  CHECK(check_like_brute_force(spec_of(), {1, 2, 8, 16}, {0.5, 1.0, 2.0, 6.0, 80.0}) == 0);
}

TEST_CASE("the search quantizes gradients exactly where brute force does", "[planner][search][slow]") {
  const int quantized =
      check_like_brute_force(spec_of("parallel: auto, communication: {max_gradient_error: 0.5}"), {2, 8}, {1.0, 6.0});
  CHECK(quantized > 0);
  CHECK(quantized < 4);
}

TEST_CASE("a small budget still gives a plan that fits", "[planner][search]") {
  FakeEstimator estimator(2);
  const Search s = search(spec_of(), 16, small_cluster(4), estimator, {1e6, 1});
  REQUIRE(s.best);
  CHECK(s.best->estimate.memory.fits());
  CHECK(s.limit == "1 exact estimate");
}

TEST_CASE("alternatives differ from the best and explain why they lose", "[planner][search]") {
  const ClusterSpec cluster = small_cluster(4);
  FakeEstimator estimator(0.7);
  const Search s = search(spec_of(), 16, cluster, estimator, {.seconds = 1e6});
  REQUIRE(s.best);
  CHECK(s.alternatives.size() >= 5);
  for (const Choice& c : s.alternatives) {
    INFO(describe(c.plan) << ": " << c.why);
    CHECK(!c.why.empty());
    CHECK(c.plan != s.best->plan);
    if (c.estimate.memory.fits())
      CHECK_THAT(c.why, Catch::Contains("% slower: ") || Catch::Contains("as fast"));
    else
      CHECK_THAT(c.why, Catch::Contains("over by ") && Catch::Contains("iB (mostly activations)"));
  }
  REQUIRE(!s.remarks.empty());
  CHECK_THAT(s.remarks.front(), Catch::Contains("iB more: ") && Catch::Contains("% faster"));
}

TEST_CASE("the nearest plan that fits has the fewest changed keys", "[planner][search]") {
  const ClusterSpec cluster = small_cluster(4);
  const RunSpec spec = spec_of("parallel: {data: 2}", "global_batch: 32, micro_batch: 16");
  const Plan from = plan_of(spec);
  for (const double gib : {1.5, 2.0, 4.0}) {
    FakeEstimator estimator(gib);
    REQUIRE(!estimator.memory(spec, 2).fits());
    const auto near = nearest_fitting(spec, 2, cluster, estimator, 1e6);
    REQUIRE(near);
    INFO(gib << " GiB: " << changed_keys(from, near->plan));
    CHECK(near->estimate.memory.fits());
    CHECK(near->plan.data == 2);
    if (gib == 4) CHECK(list_changed_keys(from, near->plan).size() == 1);
  }
  FakeEstimator hopeless(0.01);
  CHECK(!nearest_fitting(spec, 2, cluster, hopeless, 1e6));
}

TEST_CASE("a spec whose open keys allow no legal plan is refused", "[planner][search]") {
  FakeEstimator estimator(80);
  CHECK_THROWS_WITH(search(spec_of("parallel: {auto: [data], tensor: 5}"), 8, small_cluster(), estimator),
                    Catch::Contains("parallel.auto leaves open make a legal plan for 8 ranks"));
}

TEST_CASE("a model that fits on no device is refused with the missing memory", "[planner][search]") {
  FakeEstimator estimator(0.05);
  const Search s = search(spec_of(), 2, small_cluster(), estimator, {.seconds = 1e6});
  CHECK(!s.best);
  REQUIRE(s.closest);
  CHECK(s.closest->exact);
  CHECK(s.closest->estimate.memory.missing() > 0);
  CHECK_THAT(nothing_fits(s, 2, small_cluster()), Catch::Contains("over by ") && Catch::Contains("(mostly "));
}

TEST_CASE("written_keys returns exactly the keys that differ from the defaults", "[planner][search]") {
  Plan plan = plan_of(RunSpec());
  CHECK(written_keys(plan).empty());
  plan.micro_batch = 1;
  plan.tensor = 2;
  CHECK(written_keys(plan) == "parallel.tensor=2 train.micro_batch=1");
  CHECK(plan_json(plan)["keys"] == written_keys(plan));
}

TEST_CASE("a run for which no plan was found in time is told to lower train.micro_batch") {
  Plan plan;
  plan.micro_batch = 100000;
  CHECK(describe_nearest(plan, {}) ==
        "no similar plan that fits was found in time; a smaller train.micro_batch than 100000 takes less");
}
