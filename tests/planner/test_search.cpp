// The search against brute force, with a judge whose mind is known.
#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "fake_judge.h"
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

double brute_force(const RunSpec& spec, int ranks, const FakeJudge& judge, const ClusterSpec& cluster) {
  double best = std::numeric_limits<double>::infinity();
  for (const Plan& p : Candidates(spec, ranks, cluster).all())
    if (const Estimate e = judge.exact(with_plan(spec, p), ranks); e.memory.fits()) best = std::min(best, e.time.total);
  return best;
}

}  // namespace

TEST_CASE("the search finds what brute force finds, with few looks", "[planner][search]") {
  const RunSpec spec = spec_of();
  const ClusterSpec cluster = small_cluster(4);
  for (const int ranks : {1, 2, 8, 16})
    for (const double gib : {0.5, 1.0, 2.0, 6.0, 80.0}) {
      FakeJudge judge(gib);
      const double best = brute_force(spec, ranks, judge, cluster);
      const Search s = search(spec, ranks, cluster, judge, {1e6, 100000});
      INFO(ranks << " ranks of " << gib << " GiB: " << s.glances << " glances, " << s.estimates << " estimates");
      CHECK(s.complete);
      CHECK(s.best.has_value() == (best < std::numeric_limits<double>::infinity()));
      if (!s.best) continue;
      CHECK(s.best->estimate.time.total == best);
      CHECK(s.best->estimate.memory.fits());
      CHECK(with_plan(spec, s.best->plan).parallel.open.empty());
      CHECK(s.glances < static_cast<int>(Candidates(spec, ranks, cluster).all().size()));
    }
}

TEST_CASE("a small budget still gives a plan that fits", "[planner][search]") {
  FakeJudge judge(2);
  const Search s = search(spec_of(), 16, small_cluster(4), judge, {1e6, 1});
  REQUIRE(s.best);
  CHECK(s.best->estimate.memory.fits());
  CHECK(!s.complete);
}

TEST_CASE("alternatives differ, say why they lose, and what would help is said", "[planner][search]") {
  const ClusterSpec cluster = small_cluster(4);
  FakeJudge judge(0.7);
  const Search s = search(spec_of(), 16, cluster, judge, {.seconds = 1e6});
  REQUIRE(s.best);
  CHECK(s.alternatives.size() >= 5);
  for (const Choice& c : s.alternatives) {
    INFO(describe(c.plan) << ": " << c.why);
    CHECK(!c.why.empty());
    CHECK(c.plan != s.best->plan);
    if (c.estimate.memory.fits())
      CHECK_THAT(c.why, Catch::Contains("% slower: ") || Catch::Contains("as fast"));
    else
      CHECK_THAT(c.why, Catch::Contains("over by ") && Catch::Contains("GiB (mostly activations)"));
  }
  REQUIRE(!s.remarks.empty());
  CHECK_THAT(s.remarks.front(), Catch::Contains("GiB more: ") && Catch::Contains("% faster"));
}

TEST_CASE("the nearest plan that fits changes as little as can be", "[planner][search]") {
  const ClusterSpec cluster = small_cluster(4);
  const RunSpec spec = spec_of("parallel: {data: 2}", "global_batch: 32, micro_batch: 16");
  const Plan from = plan_of(spec);
  for (const double gib : {1.5, 2.0, 4.0}) {
    FakeJudge judge(gib);
    REQUIRE(!judge.memory(spec, 2).fits());
    const auto near = nearest_fitting(spec, 2, cluster, judge, 1e6);
    REQUIRE(near);
    INFO(gib << " GiB: " << changed_keys(from, near->plan));
    CHECK(near->estimate.memory.fits());
    CHECK(near->plan.data == 2);
    if (gib == 4) CHECK(count_changed_keys(from, near->plan) == 1);
  }
  FakeJudge hopeless(0.01);
  CHECK(!nearest_fitting(spec, 2, cluster, hopeless, 1e6));
}

TEST_CASE("a spec that leaves nothing legal is refused", "[planner][search]") {
  FakeJudge judge(80);
  CHECK_THROWS_WITH(search(spec_of("parallel: {auto: [data], tensor: 5}"), 8, small_cluster(), judge),
                    Catch::Contains("nothing that parallel.auto leaves open makes a plan for 8 ranks"));
}

TEST_CASE("what can fit on no device is refused with what is missing", "[planner][search]") {
  FakeJudge judge(0.05);
  const Search s = search(spec_of(), 2, small_cluster(), judge, {.seconds = 1e6});
  CHECK(!s.best);
  REQUIRE(s.closest);
  CHECK(s.closest->exact);
  CHECK(s.closest->estimate.memory.missing() > 0);
  CHECK_THAT(nothing_fits(s, 2, small_cluster()), Catch::Contains("over by ") && Catch::Contains("(mostly "));
}

TEST_CASE("keys of a plan give it again on a spec without them", "[planner][search]") {
  Plan plan = plan_of(RunSpec());
  CHECK(written_keys(plan).empty());
  plan.micro_batch = 1;
  plan.tensor = 2;
  CHECK(written_keys(plan) == "parallel.tensor=2 train.micro_batch=1");
  CHECK(plan_json(plan)["keys"] == written_keys(plan));
}
