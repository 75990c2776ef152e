#include "job_sizes.h"

#include "base/error.h"
#include "base/log.h"
#include "device.h"
#include "planner/candidates.h"
#include "planner/report.h"
#include "planner/search.h"
#include "planning.h"
#include "sharding/arrange.h"
#include "sharding/pipeline_plan.h"

namespace fp {
namespace {

ClusterSpec nodes_of(int ranks) {
  ClusterSpec c;
  c.name = "nodes of the job";
  c.device = ClusterDevice::cuda;  // one per rank
  c.ranks_per_node = ranks;
  c.memory_gib = 1;
  return c;
}

// Returns why the run cannot be arranged on `ranks` ranks; empty if it can.
std::string arrange_error(const RunSpec& whole, int ranks, int ranks_per_node) {
  if (!whole.parallel.open.empty()) {
    constexpr bool kAnySize = true;
    if (!Candidates(whole, ranks, nodes_of(ranks_per_node)).leads(kAnySize).empty()) return "";
    return fmt::format("no legal plan: with train.global_batch = {}, {} heads and {} layers{}",
                       whole.train.global_batch, whole.model.heads, whole.model.layers, written_micro_batch(whole));
  }
  try {
    RunSpec spec = whole;
    arrange(spec, ranks, ArrangedBy::submit);
    plan_pipeline(spec);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

// Throws ConfigError if the cluster has fewer nodes, or fewer ranks per node, or another device than the run.
void check_nodes(const ClusterSpec& cluster, const RunSpec& spec, int nodes, int ranks_per_node) {
  if (ranks_per_node > cluster.ranks_per_node)
    throw ConfigError(fmt::format("--ranks-per-node {}: cluster {} (parallel.cluster) has at most {} ranks per node",
                                  ranks_per_node, cluster.name, cluster.ranks_per_node));
  if (cluster.nodes > 0 && nodes > cluster.nodes)
    throw ConfigError(fmt::format("--nodes {}: cluster {} (parallel.cluster) has {} node{}", nodes, cluster.name,
                                  cluster.nodes, cluster.nodes == 1 ? "" : "s"));
  const bool on_gpus = spec.run.device == RunDevice::cuda;
  if (spec.run.device != RunDevice::automatic && on_gpus != (cluster.device == ClusterDevice::cuda))
    throw ConfigError(fmt::format("run.device is {}, but cluster {} (parallel.cluster) describes ranks on {}",
                                  name_of(spec.run.device), cluster.name, name_of(cluster.device)));
}

}  // namespace

void check_sizes(const RunSpec& spec, int min_nodes, int max_nodes, int ranks_per_node) {
  const RunSpec whole = with_vocab_of_data(spec);
  std::string first, legal;
  for (int nodes = min_nodes; nodes <= max_nodes; ++nodes) {
    const std::string why = arrange_error(whole, nodes * ranks_per_node, ranks_per_node);
    if (why.empty())
      legal += fmt::format("{}{}", legal.empty() ? "" : ", ", nodes);
    else if (first.empty())
      first = fmt::format("{} node{} with {} rank{} each: {}", nodes, nodes == 1 ? "" : "s", ranks_per_node,
                          ranks_per_node == 1 ? "" : "s", why);
  }
  if (first.empty()) return;
  throw ConfigError(fmt::format("{}\nnumbers of nodes that can run it: {}{}", first, legal.empty() ? "none" : legal,
                                whole.parallel.open.empty() && max_nodes > min_nodes
                                    ? "; with `parallel: auto` each start is planned for the nodes that it gets"
                                    : ""));
}

void check_memory(const RunSpec& spec, int nodes, int ranks_per_node) {
  std::optional<ClusterSpec> cluster = cluster_for(spec);
  if (!cluster)
    return log::info("whether the run fits in memory was not checked: parallel.cluster names no cluster description");
  check_nodes(*cluster, spec, nodes, ranks_per_node);
  cluster->ranks_per_node = ranks_per_node;
  const int ranks = nodes * ranks_per_node;
  RunSpec whole = with_vocab_of_data(spec);
  Estimator estimator(*cluster, &cpu_backend());
  if (!whole.parallel.open.empty()) {
    log::info("searching for a plan that fits in memory");
    const Search found = search(whole, ranks, *cluster, estimator);
    if (!found.best && found.complete()) throw ConfigError(nothing_fits(found, ranks, *cluster));
    if (!found.best) log::warning("no plan that fits in memory was found in time; the job will search again");
    return;
  }
  arrange(whole, ranks, ArrangedBy::submit);
  const RankMemory memory = estimator.memory(whole, ranks);
  if (memory.fits()) return;
  throw ConfigError(does_not_fit(memory, plan_of(whole), nearest_fitting(whole, ranks, *cluster, estimator)));
}

}  // namespace fp
