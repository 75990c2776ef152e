#include "planning.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "config/load.h"
#include "config/open_keys.h"
#include "config/preset.h"
#include "data/sampling/sampler.h"
#include "device.h"
#include "dryrun/memory_watch.h"
#include "dryrun/setup.h"
#include "io/filesystem.h"
#include "io/json.h"
#include "planner/candidates.h"
#include "planner/report.h"
#include "sharding/arrange.h"

namespace fp {
namespace {

Forecast forecast_of(const Estimate& e, const ClusterSpec& cluster) {
  nlohmann::ordered_json json = estimate_json(e);
  json["cluster"] = cluster.name;
  return {cluster.name, e.time.total, e.tokens_per_s, json.dump(2) + "\n"};
}

// Errors of the spec are reported elsewhere; those of the cluster description do not stop a run.
std::optional<Forecast> forecast(const RunSpec& spec, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator) {
  try {
    return forecast_of(estimator.estimate(spec, ranks), cluster);
  } catch (const ConfigError& e) {
    log::warning("the time of a step is not predicted: {}", e.what());
    return {};
  }
}

// Describes this machine's memory, with made-up rates that only rank plans by work: no time is predicted from them.
ClusterSpec this_machine(const Ops& ops, int ranks_per_node) {
  ClusterSpec c;
  c.name = "this machine";
  c.source = "made up";
  c.device = ops.device_memory() ? ClusterDevice::cuda : ClusterDevice::cpu;
  c.ranks_per_node = ranks_per_node;
  c.memory_gib = static_cast<double>(MemoryWatch::available(ops, ranks_per_node)) / (1 << 30);
  c.host_gb_per_s = 20;
  c.headroom = 0;  // as for the check that it gives advice for, of the memory that is free now
  NodeProfile n;
  n.ranks = ranks_per_node;
  n.peak_tflops_bf16 = n.peak_tflops_fp32 = 1;
  for (const char* op : {"linear", "linear_backward_input", "linear_backward_weight"})
    for (const char* compute : {"bf16", "fp32"}) n.products.push_back({op, compute, 1});
  n.ops = {{"other", "", 50, 1, 0}};
  n.links = {{"ranks", "any", 10, 10}, {"nodes", "any", 20, 5}};
  c.profiles = {n};
  return c;
}

// Returns the plan that the run started with if it has saved, and the plan is for as many ranks, differs only in open
// keys and fits. Keeping it makes the resumed run bit-identical.
std::optional<Plan> plan_so_far(const RunSpec& spec, int ranks, ClusterSpec cluster) {
  const std::filesystem::path directory = spec.run.directory, file = directory / "config.yaml";
  if (!path_exists(file) || !path_exists(directory / "checkpoints")) return {};
  if (checkpoints_in(directory / "checkpoints").empty()) return {};
  try {
    const Plan before = plan_of(load_run_spec(file, {}, DataFolders::may_be_missing));
    if (before.tensor * before.sequence * before.pipeline * before.data != ranks) return {};
    Plan now = plan_of(spec);
    if (now.data == 0) now.data = before.data;  // what the other degrees leave
    for (const ChangedKey& key : list_changed_keys(now, before)) {
      const auto changes = [&](const OpenKey& k) { return is_open(spec, k.name) && key.path == k.path; };
      if (std::none_of(open_keys().begin(), open_keys().end(), changes)) return {};
    }
    if (!is_legal(spec, before, ranks)) return {};
    cluster.headroom = 0;  // which a new plan leaves free, and a run may use
    Estimator estimator(cluster, &cpu_backend());
    if (estimator.memory(with_plan(spec, before), ranks).fits()) return before;
    log::info("the plan of the run so far does not fit in memory any more");
    return {};
  } catch (const ConfigError&) {
    return {};
  }
}

}  // namespace

RunSpec with_vocab_of_data(RunSpec spec) {
  if (spec.model.vocab == 0) spec.model = with_vocab(spec.model, vocab_of_data(spec.data));
  return spec;
}

std::optional<ClusterSpec> cluster_for(const RunSpec& spec, const std::string& named) {
  const std::string& wanted = named.empty() ? spec.parallel.cluster : named;
  if (wanted.empty()) return {};
  const std::filesystem::path file = find_cluster(wanted, {});
  if (file.empty())
    throw ConfigError(
        fmt::format("there is no cluster description '{}'; legal: the path of a file that `fptrain bench all "
                    "--write-cluster FILE` wrote, or a name: {}",
                    wanted, fmt::join(cluster_names(), ", ")));
  return load_cluster(file);
}

bool leave_plan_open(const ParallelSection& parallel, int ranks, std::vector<std::string>& sets) {
  if (ranks <= 1 || !divides_nothing(parallel)) return false;
  log::info("the run spec has no plan for {} ranks, so the planner chooses one, as with --set parallel=auto", ranks);
  sets.emplace_back("parallel.auto=[all]");
  return true;
}

std::string missing_cluster_message() {
  return fmt::format(
      "the planner chooses a plan by its predicted time, which needs a cluster description, given by --cluster or "
      "parallel.cluster. It is a name ({}) or the path of a file that `fptrain bench all --write-cluster FILE` wrote, "
      "under mpirun for several ranks. `fptrain train` measures its ranks by itself",
      fmt::join(cluster_names(), ", "));
}

Planned plan_training(const RunSpec& spec, int ranks, const ClusterSpec& cluster, bool resumes) {
  const RunSpec whole = with_vocab_of_data(spec);
  Estimator estimator(cluster, &cpu_backend());
  if (spec.parallel.open.empty()) return {std::nullopt, forecast(whole, ranks, cluster, estimator)};
  if (const std::optional<Plan> before = resumes ? plan_so_far(whole, ranks, cluster) : std::nullopt) {
    log::info("plan for {} rank{}, kept from the start of the run: {}", ranks, ranks == 1 ? "" : "s",
              describe(*before));
    return {before, forecast(with_plan(whole, *before), ranks, cluster, estimator)};
  }
  const Search found = search(whole, ranks, cluster, estimator);
  if (!found.best) throw ConfigError(nothing_fits(found, ranks, cluster));
  log::info("plan for {} rank{} of {}: {}\n{}", ranks, ranks == 1 ? "" : "s", cluster.name, describe(found.best->plan),
            describe_search(found));
  return {found.best->plan, forecast_of(found.best->estimate, cluster)};
}

std::string nearest_here(const RunSpec& spec, int ranks, int ranks_per_node, const Ops& ops) {
  const ClusterSpec cluster = this_machine(ops, ranks_per_node);
  Estimator estimator(cluster, &cpu_backend());
  return describe_nearest(plan_of(spec), nearest_fitting(spec, ranks, cluster, estimator));
}

std::string to_text(const Planned& p) {
  nlohmann::json j = nlohmann::json::object();
  if (p.plan) j["plan"] = to_json(*p.plan);
  if (p.forecast)
    j["forecast"] = {{"cluster", p.forecast->cluster},
                     {"step_s", p.forecast->step_s},
                     {"tokens_per_s", p.forecast->tokens_per_s},
                     {"json", p.forecast->json}};
  return j.dump();
}

Planned planned_from_text(const std::string& text) {
  const nlohmann::json j = parse_json(text, "rank 0's plan", kJsonOfRanks);
  Planned p;
  if (j.contains("plan")) p.plan = plan_from_json(j["plan"]);
  if (j.contains("forecast")) {
    const auto& f = j["forecast"];
    p.forecast = Forecast{f["cluster"], f["step_s"], f["tokens_per_s"], f["json"]};
  }
  return p;
}

}  // namespace fp
