// fptrain bench overlap: what of a step's communication is not hidden by computation, measured and predicted.
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/parallel.h"
#include "bench.h"
#include "bench/link_benchmark.h"
#include "comm/backends.h"
#include "device.h"
#include "measure_machine.h"
#include "ops/backends.h"
#include "planner/estimate.h"
#include "planning.h"

namespace fp {
namespace {

struct OverlapArguments {
  BenchModel model;
  std::string cluster;
  std::vector<std::string> variants;
  int ranks = 4, threads = 1, warmup = 1, steps = 5;
  double link = 1, node_link = 0, latency_us = 20;  // GB/s
  bool json = false;
};

struct OverlapRow {
  std::string variant;
  LinkSteps measured, predicted;
};

// The run spec of a variant, given as 'KEY=VALUE KEY=VALUE'.
RunSpec spec_of(const OverlapArguments& a, const std::string& variant) {
  BenchModel model = a.model;
  std::istringstream words(variant);
  for (std::string word; words >> word;) model.sets.push_back(word);
  RunSpec spec = bench_spec(model);
  const ParallelSection& p = spec.parallel;
  const int64_t ranks = p.data * p.sequence * p.tensor * p.pipeline.ranks;
  if (ranks != a.ranks)
    throw ConfigError(fmt::format(
        "parallel of variant '{}' is for {} rank{}, not for the {} of --ranks; set its degrees, for example "
        "--set parallel.data={}",
        variant, ranks, ranks == 1 ? "" : "s", a.ranks, a.ranks));
  return spec;
}

// The rates of `measured` with links of these rates, beside which ranks compute as fast as without.
ClusterSpec with_links(ClusterSpec c, int64_t ranks_per_node, double gb_per_s, double node_gb_per_s,
                       double latency_us) {
  c.overlaps = true;
  c.slower_beside_communication = 0;
  c.nodes = 0;
  c.ranks_per_node = ranks_per_node;
  NodeProfile& p = c.profiles.back();
  p.ranks = ranks_per_node;
  p.links = {{"ranks", "any", latency_us, gb_per_s}, {"nodes", "any", latency_us, node_gb_per_s}};
  c.profiles = {p};
  return c;
}

std::vector<OverlapRow> measure_all(const OverlapArguments& a) {
  std::vector<std::string> names = a.variants;
  if (names.empty()) names = {"communication.overlap=false", "communication.overlap=true"};
  std::vector<RunSpec> specs;
  for (const std::string& v : names) specs.push_back(spec_of(a, v));
  std::vector<OverlapRow> rows(specs.size());
  run_thread_ranks(a.ranks, [&](World& world) {
    set_threads(a.threads);
    const auto ops = make_cpu_ops();
    std::vector<int> everyone;
    for (int r = 0; r < a.ranks; ++r) everyone.push_back(r);
    const auto all_ranks = world.group("all ranks", everyone);
    const auto given = cluster_for(specs.front(), a.cluster);
    const ClusterSpec rates = given ? *given : measure_machine(*ops, world, *all_ranks, true).cluster;
    const int64_t own = specs.front().parallel.ranks_per_node, per_node = own > 0 ? own : a.ranks;
    const double node_link = a.node_link > 0 ? a.node_link : a.link;
    const ClusterSpec slow = with_links(rates, per_node, a.link, node_link, a.latency_us);
    const CostModel costs(slow, a.ranks);
    const auto delayed = make_delayed_world(
        world, [&costs](CommKind kind, std::span<const int> ranks, int64_t sent, const UnevenPieces& pieces) {
          return costs.comm_seconds(kind, ranks, sent, pieces);
        });
    const std::vector<LinkSteps> measured = benchmark_links(specs, world, *delayed, *ops, a.warmup, a.steps);
    if (world.rank() != 0) return;
    const ClusterSpec instant = with_links(rates, per_node, 1e9, 1e9, 0);
    Estimator with_delay(slow), without(instant);
    for (size_t i = 0; i < rows.size(); ++i) {
      const double fast = without.estimate(specs[i], a.ranks).time.total,
                   delayed_step = with_delay.estimate(specs[i], a.ranks).time.total;
      rows[i] = {names[i], measured[i], {fast, delayed_step, delayed_step - fast}};
    }
  });
  return rows;
}

void print(const std::vector<OverlapRow>& rows) {
  fmt::print("{:>10}{:>10}{:>11}   {:>10}{:>10}{:>11}{:>9}   variant\n", "step ms", "no links", "exposed", "predicted",
             "no links", "exposed", "ratio");
  for (const OverlapRow& r : rows)
    fmt::print("{:>10.1f}{:>10.1f}{:>11.1f}   {:>10.1f}{:>10.1f}{:>11.1f}{:>9.2f}   {}\n", r.measured.slow * 1e3,
               r.measured.instant * 1e3, r.measured.exposed * 1e3, r.predicted.slow * 1e3, r.predicted.instant * 1e3,
               r.predicted.exposed * 1e3, r.measured.exposed / r.predicted.exposed, r.variant);
  fmt::print(
      "no links: with links that take no time; exposed: what a step takes longer with links; ratio: measured / "
      "predicted\n");
}

nlohmann::json to_json(const std::vector<OverlapRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  const auto steps = [](const LinkSteps& s) {
    return nlohmann::json{
        {"step_ms", s.slow * 1e3}, {"without_links_ms", s.instant * 1e3}, {"exposed_ms", s.exposed * 1e3}};
  };
  for (const OverlapRow& r : rows)
    list.push_back({{"variant", r.variant}, {"measured", steps(r.measured)}, {"predicted", steps(r.predicted)}});
  return {{"rows", list}};
}

}  // namespace

void add_bench_overlap(cli::App& bench) {
  const auto a = std::make_shared<OverlapArguments>();
  cli::App* command = bench.add_subcommand(
      "overlap", "Time steps of several ranks with slow links, and compare the communication that is not hidden");
  add_model_options(*command, a->model);
  command->add_option("--ranks", a->ranks, "ranks, which are threads of this process on the CPU")
      ->capture_default_str()
      ->check(cli::PositiveNumber);
  command->add_option("--threads", a->threads, "threads of each rank")
      ->capture_default_str()
      ->check(cli::Range(1, 4096));
  command->add_option("--link-gb-per-s", a->link, "rate at which each rank sends within a node")
      ->capture_default_str()
      ->check(cli::PositiveNumber);
  command
      ->add_option("--node-link-gb-per-s", a->node_link,
                   "the same between the nodes that parallel.ranks_per_node makes; default: as within a node")
      ->check(cli::PositiveNumber);
  command
      ->add_option("--latency-us", a->latency_us,
                   "latency of a communication, in microseconds, per log2 of the number of its ranks")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber);
  command->add_option("--variant", a->variants,
                      "keys of the run spec to compare, 'KEY=VALUE KEY=VALUE'; may be given more than once; default: "
                      "communication.overlap=false and =true");
  command->add_option("--warmup", a->warmup, "warm-up steps that are not measured")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber);
  command->add_option("--steps", a->steps, "steps measured")->capture_default_str()->check(cli::PositiveNumber);
  command->add_option("--cluster", a->cluster,
                      "cluster description with the rates of computation: a file, or a name in configs/clusters; "
                      "default: measure this machine");
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] {
    const std::vector<OverlapRow> rows = measure_all(*a);
    if (a->json)
      fmt::print("{}\n", to_json(rows).dump());
    else
      print(rows);
  });
}

}  // namespace fp
