// fptrain plan: what a run would need, do and take, before anything is allocated.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "config/load.h"
#include "device.h"
#include "ops/counting.h"
#include "plan/layout.h"
#include "planner/memory.h"
#include "planner/report.h"
#include "planning.h"
#include "train/dry_run.h"
#include "train/memory_watch.h"
#include "train/setup.h"

namespace fp {
namespace {

struct PlanArguments {
  std::string file, cluster;
  std::vector<std::string> sets;
  bool explain = false, json = false;
  int ranks = 0, alternatives = 5;
};

// Data are looked at only where the spec leaves the vocabulary to them.
RunSpec read_plan_spec(const PlanArguments& a) {
  const RunSpec spec = load_run_spec(a.file, a.sets, DataFolders::may_be_missing);
  return spec.model.vocab > 0 ? spec : with_vocab_of_data(load_run_spec(a.file, a.sets));
}

// The ranks the plan is for: as told, or as the degrees multiply to.
int ranks_of(const ParallelSection& p, int told) {
  if (told > 0) return told;
  const bool shared_out = std::any_of(p.open.begin(), p.open.end(), [](const std::string& key) {
    return key == "tensor" || key == "sequence" || key == "pipeline.ranks" || key == "data";
  });
  if (p.data == 0 || shared_out)
    throw ConfigError(fmt::format("parallel.{} what the other degrees leave of the ranks: say how many with --ranks N",
                                  p.data == 0 ? "data = 0 takes" : "auto shares out"));
  return static_cast<int>(p.pipeline.ranks * p.data * p.sequence * p.tensor);
}

constexpr int kRanksOfAHost = 64;

// Of all ranks, where one host may have them.
double bytes_of_all(MemorySearch& search, const Mesh& mesh) {
  double bytes = 0;
  for (int rank = 0; rank < mesh.size(); ++rank)
    bytes += static_cast<double>(search.exact(search.roles().of(rank)).device_bytes());
  return bytes;
}

RankMemory on_this_machine(const Prediction& p, int rank, const Ops& ops) {
  const int64_t available = MemoryWatch::available(ops), unknown = std::numeric_limits<int64_t>::max();
  RankMemory m;
  m.rank = rank;
  m.prediction = p;
  m.bytes = static_cast<int64_t>(p.required_bytes());
  m.available = available > 0 ? available : unknown;
  return m;
}

// Without a cluster: memory, work and traffic, which need no rates.
void plan_here(const PlanArguments& a, RunSpec spec) {
  const auto ops = open_device(spec.run.device, spec.run.threads);
  const auto counting = make_counting_ops(ops.get());
  const Mesh mesh = arrange(spec, ranks_of(spec.parallel, a.ranks));
  const PipelinePlan pipeline = plan_pipeline(spec);
  MemorySearch search(spec, pipeline, mesh, *counting);
  const int worst = search.worst(), rank = search.roles().rank(worst);
  const Prediction& p = search.exact(worst);
  if (a.json) {
    Estimate e;
    e.spec = spec;
    e.ranks = mesh.size();
    e.memory = on_this_machine(p, rank, *ops);
    nlohmann::ordered_json j = estimate_json(e);
    j["time"] = nullptr;
    j["alternatives"] = nlohmann::json::array();
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}\ndevice                {:>12}\n", describe_model(spec.model), ops->name());
    if (mesh.size() > 1)
      fmt::print("ranks                 {:>12}   {}; what follows is of rank {}, which needs most\n", mesh.size(),
                 describe(spec.parallel), rank);
    fmt::print("{}", describe(pipeline, step_sizes(spec.train, mesh.dp()).back()));
    fmt::print("{}", describe(p, spec));
    if (mesh.size() > 1 && mesh.size() <= kRanksOfAHost && !ops->device_memory())
      fmt::print("all ranks on one host {:>12.2f} GiB\n",
                 bytes_of_all(search, mesh) / static_cast<double>(size_t{1} << 30));
    if (a.explain) fmt::print("{}", explain(p));
    fmt::print("\ntimes: --cluster FILE or parallel.cluster names the machine that they are predicted for\n");
  }
  std::fflush(stdout);
  try {
    require_fit(p, need_of(p), *ops);
  } catch (const ConfigError& e) {
    throw ConfigError(fmt::format("{}; {}", e.what(), nearest_here(spec, mesh.size(), 1, *ops)));
  }
}

void print_estimate(const Estimate& e, const ClusterSpec& cluster) {
  fmt::print("{}",
             describe(plan_pipeline(e.spec), step_sizes(e.spec.train, static_cast<int>(e.spec.parallel.data)).back()));
  fmt::print("{}", describe_time(e, cluster));
  std::fflush(stdout);
}

void print_plan_json(const Estimate& e, const Search& found, const std::optional<Choice>& nearest) {
  nlohmann::ordered_json j = estimate_json(e);
  j["alternatives"] = alternatives_json(found);
  if (nearest)
    j["nearest"] = {{"keys", changed_keys(plan_of(e.spec), nearest->plan)}, {"plan", plan_json(nearest->plan)}};
  fmt::print("{}\n", j.dump(2));
  std::fflush(stdout);
}

// The verdict comes before what takes longer to find out.
void judge_plan(const PlanArguments& a, RunSpec spec, int ranks, const ClusterSpec& cluster) {
  arrange(spec, ranks);
  EstimatorJudge judge(cluster);
  const RankMemory memory = judge.memory(spec, ranks);
  if (!a.json) fmt::print("{}\n", describe_memory(memory, cluster));
  std::fflush(stdout);
  const auto nearest = memory.fits() ? std::nullopt : nearest_fitting(spec, ranks, cluster, judge);
  if (a.explain && !a.json) fmt::print("{}", explain(memory.prediction));
  const Estimate e = judge.estimate(spec, ranks);
  if (a.json)
    print_plan_json(e, {}, nearest);
  else
    print_estimate(e, cluster);
  if (!memory.fits()) throw ConfigError(does_not_fit(memory, plan_of(spec), nearest));
}

void choose_plan(const PlanArguments& a, const RunSpec& spec, int ranks, const ClusterSpec& cluster) {
  EstimatorJudge judge(cluster);
  SearchBudget budget;
  budget.alternatives = a.alternatives;
  budget.estimates = std::max(budget.estimates, 3 * a.alternatives);
  const Search found = search(spec, ranks, cluster, judge, budget);
  if (!found.best) throw ConfigError(nothing_fits(found, ranks, cluster));
  const Estimate& e = found.best->estimate;
  if (a.json) return print_plan_json(e, found, {});
  fmt::print("{}\n", describe_memory(e.memory, cluster));
  print_estimate(e, cluster);
  fmt::print("\n{}", describe_search(found));
}

void run_plan(const PlanArguments& a) {
  const RunSpec spec = read_plan_spec(a);
  const std::optional<ClusterSpec> cluster = cluster_for(spec, a.cluster);
  if (!cluster && !spec.parallel.open.empty()) throw ConfigError(needs_cluster());
  if (!cluster) return plan_here(a, spec);
  const int ranks = ranks_of(spec.parallel, a.ranks);
  if (!a.json) {
    fmt::print("{}\n", describe_model(spec.model));
    if (spec.parallel.open.empty() && ranks > 1) fmt::print("{} ranks: {}\n", ranks, describe(spec.parallel));
  }
  if (spec.parallel.open.empty())
    judge_plan(a, spec, ranks, *cluster);
  else
    choose_plan(a, spec, ranks, *cluster);
}

}  // namespace

void add_plan_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<PlanArguments>();
  cli::App* command = app.add_subcommand(
      "plan", "Say what a run would need, do and take, or choose how; ends with 2 where it does not fit");
  command->add_option("run", a->file, "run spec (YAML)")->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--ranks", a->ranks,
                   "ranks the run will have; default: as many as the degrees of `parallel` multiply to")
      ->check(cli::Range(1, 1 << 20));
  command->add_option("--cluster", a->cluster,
                      "the machine that times are predicted for: a cluster file, or a name in configs/clusters; "
                      "default: parallel.cluster");
  command->add_flag("--explain", a->explain, "also which implementations run, and why others were passed over");
  command->add_option("--alternatives", a->alternatives, "where it chooses: how many other plans are shown, at least")
      ->capture_default_str()
      ->check(cli::Range(1, 100));
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] { run_plan(*a); });
}

}  // namespace fp
