// Quick measurements yield legal cluster descriptions and keep profiles of other numbers of ranks.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "base/error.h"
#include "comm/backends.h"
#include "ops/backends.h"
#include "planner/measured.h"
#include "small_cluster.h"

namespace fp {
namespace {

NodeFacts facts() {
  NodeFacts f;
  f.name = "here";
  f.device = ClusterDevice::cpu;
  f.ranks_per_node = 2;
  f.memory_gib = f.host_memory_gib = 4;
  return f;
}

}  // namespace

TEST_CASE("a measured peak is at least the rate of the fastest product", "[planner][measure]") {
  DeviceRates rates;
  rates.profile.peak_tflops_bf16 = 0.217;
  rates.profile.peak_tflops_fp32 = 0.3;
  rates.profile.products = {{"linear", "bf16", 0.45}, {"linear_backward_input", "bf16", 0.4}, {"linear", "fp32", 0.2}};
  const NodeProfile p = measured_cluster(facts(), rates, {}, {}).profiles.front();
  CHECK(p.peak_tflops_bf16 == 0.45);
  CHECK(p.peak_tflops_fp32 == 0.3);
}

TEST_CASE("two ranks measure a legal cluster together and agree on it", "[planner][measure][slow]") {
  std::vector<ClusterSpec> of_ranks(2);
  std::vector<CheckedStep> steps;
  run_thread_ranks(2, [&](World& world) {
    const auto ops = make_cpu_ops();
    world.attach(*ops);
    const auto everybody = world.group("everybody", {0, 1});
    const double enough = 600;  // seconds: all is measured even on a busy machine
    const auto links = measure_links(world, *ops, {"here", "here"}, true, enough);
    const DeviceRates rates = measure_device(*ops, *everybody, 2, true, enough);
    if (world.rank() == 0) steps = rates.steps;
    of_ranks[static_cast<size_t>(world.rank())] =
        measured_cluster(facts(), rates, links, {.bytes = 1, .write_bytes_per_s = 1e9});
  });
  CHECK(steps.size() == 6);
  for (const CheckedStep& s : steps) {
    CAPTURE(s.model, s.seconds, s.predicted);
    // test_fit.cpp checks the accuracy of predictions on synthetic times.
    CHECK((std::isfinite(s.seconds) && s.seconds > 0));
    CHECK((std::isfinite(s.predicted) && s.predicted > 0));
  }
  const ClusterSpec& c = of_ranks[0];
  REQUIRE_NOTHROW(validate(c));
  CHECK(c.profiles.front() == of_ranks[1].profiles.front());
  for (const ProductRates& r : c.profiles.front().products)
    CHECK(r.tflops <=
          (r.compute == "bf16" ? c.profiles.front().peak_tflops_bf16 : c.profiles.front().peak_tflops_fp32));
  CHECK(c.profiles.front().ranks == 2);
  CHECK(c.profiles.front().products.size() == 6);
  CHECK(c.profiles.front().peak_tflops_bf16 > 0);
  std::set<std::string> ops, kinds;
  for (const OpRates& r : c.profiles.front().ops) ops.insert(r.op);
  for (const char* op : {"attention", "attention_backward", "adamw", "norm", "cross_entropy_backward", "other"})
    CHECK(ops.contains(op));
  for (const LinkRates& l : c.profiles.front().links) kinds.insert(l.kind);
  CHECK(kinds.size() == 7);
}

TEST_CASE("on a busy machine less is measured but the cluster is still legal", "[planner][measure]") {
  run_thread_ranks(2, [&](World& world) {
    const auto ops = make_cpu_ops();
    world.attach(*ops);
    const auto everybody = world.group("everybody", {0, 1});
    const double no_time = 0;
    const auto links = measure_links(world, *ops, {"here", "here"}, true, no_time);
    const DeviceRates rates = measure_device(*ops, *everybody, 2, true, no_time);
    const ClusterSpec c = measured_cluster(facts(), rates, links, {.bytes = 1, .write_bytes_per_s = 1e9});
    if (world.rank() != 0) return;
    CHECK(rates.steps.size() == 2);
    REQUIRE_NOTHROW(validate(c));
    CHECK(c.profiles.front().products.size() == 6);
    CHECK(c.profiles.front().links.size() == 7);
  });
}

TEST_CASE("links between nodes are measured among ranks with the same position", "[planner][measure]") {
  std::vector<LinkRates> links;
  run_thread_ranks(4, [&](World& world) {
    const auto ops = make_ref_ops();
    world.attach(*ops);
    const auto samples = measure_links(world, *ops, {"a", "b", "a", "b"}, true);
    if (world.rank() == 0) links = fit_links(samples);
  });
  std::set<std::string> between;
  for (const LinkRates& l : links) between.insert(l.between);
  CHECK(between == std::set<std::string>{"ranks", "nodes"});
  CHECK(links.size() == 14);
}

TEST_CASE("hosts with different numbers of ranks are refused", "[planner][measure]") {
  CHECK_THROWS_AS(run_thread_ranks(3,
                                   [&](World& world) {
                                     const auto ops = make_ref_ops();
                                     measure_links(world, *ops, {"a", "a", "b"}, true);
                                   }),
                  ConfigError);
}

TEST_CASE("a new profile replaces the one for the same number of ranks", "[planner][measure]") {
  ClusterSpec before = small_cluster(4), now = small_cluster(2);
  before.profiles.insert(before.profiles.begin(), small_cluster(2).profiles[0]);
  now.profiles[0].peak_tflops_bf16 = 7;
  const ClusterSpec both = with_earlier_profiles(now, before);
  REQUIRE(both.profiles.size() == 2);
  CHECK(both.profiles[0].peak_tflops_bf16 == 7);
  CHECK(both.profiles[1] == before.profiles[1]);
  CHECK(both.ranks_per_node == 4);
  before.device = ClusterDevice::cpu;
  CHECK_THROWS_WITH(with_earlier_profiles(now, before),
                    Catch::Contains("is of made up (cpu), this machine is made up"));
}

TEST_CASE("measuring a disk leaves no files", "[planner][measure]") {
  const auto folder = std::filesystem::temp_directory_path() / "fptrain-test-disk";
  std::filesystem::create_directories(folder);
  const DiskRates r = benchmark_disk(folder, 3'000'000);
  CHECK(r.bytes == 3'000'000);
  CHECK(r.write_bytes_per_s > 0);
  CHECK(r.read_bytes_per_s > 0);
  CHECK((r.cached >= 0 && r.cached <= 1));
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  CHECK_THROWS_AS(benchmark_disk(folder / "missing", 1), DataError);
}

}  // namespace fp
