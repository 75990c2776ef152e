// fptrain plan: predicts memory, work and time of a run without running it, or chooses a plan.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/human_text.h"
#include "base/parallel.h"
#include "base/shown.h"
#include "commands.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "config/open_keys.h"
#include "data/sampling/epochs.h"
#include "device.h"
#include "dryrun/dry_run.h"
#include "dryrun/memory_watch.h"
#include "dryrun/setup.h"
#include "ops/counting.h"
#include "planner/dial.h"
#include "planner/largest.h"
#include "planner/memory.h"
#include "planner/report.h"
#include "planner/search.h"
#include "planning.h"
#include "sharding/arrange.h"

namespace fp {
namespace {

struct PlanArguments {
  std::string file, cluster, headroom;
  std::vector<std::string> sets;
  bool explain = false, json = false, longest = false, largest = false;
  int ranks = 0, alternatives = 5;
  double seconds = SearchLimits().seconds;
};

// Throws ConfigError if a key outside the section `memory` is open.
void require_written_degrees(const RunSpec& spec, const char* flag) {
  std::vector<std::string_view> others;
  for (const OpenKey& key : open_keys())
    if (!key.path.starts_with("memory.")) others.push_back(key.name);
  require_planned(spec, fmt::format("`fptrain plan {}`", flag), others);
}

// The data have to be there only if the spec takes the vocabulary or the number of steps from them. A spec for one rank
// leaves the plan of several to the planner.
RunSpec read_plan_spec(PlanArguments& a) {
  RunSpec spec = load_run_spec(a.file, a.sets, DataFolders::may_be_missing);
  const bool sizes = a.longest || a.largest;
  if (sizes) {
    require_written_degrees(spec, a.longest ? "--longest" : "--largest");
    a.sets.emplace_back("parallel.auto=[memory]");  // keys that are written stay
    spec = load_run_spec(a.file, a.sets, DataFolders::may_be_missing);
  }
  if (!sizes && leave_plan_open(spec.parallel, a.ranks, a.sets))
    spec = load_run_spec(a.file, a.sets, DataFolders::may_be_missing);
  if (spec.model.vocab > 0 && spec.train.epochs == 0) return spec;
  return with_vocab_of_data(with_steps_of_data(load_run_spec(a.file, a.sets)));
}

// Returns the number of ranks to plan for: as requested, or the product of the degrees.
int ranks_of(const ParallelSection& p, int requested) {
  if (requested > 0) return requested;
  const bool open_degree = std::any_of(p.open.begin(), p.open.end(), [](const std::string& key) {
    return key == "tensor" || key == "sequence" || key == "pipeline.ranks" || key == "data";
  });
  if (p.data == 0 || open_degree)
    throw ConfigError(fmt::format("parallel.{} depends on the number of ranks; give it with --ranks N",
                                  p.data == 0 ? "data = 0" : "auto"));
  return static_cast<int>(p.pipeline.ranks * p.data * p.sequence * p.tensor);
}

// Reads the fraction from a percentage, "5%" or "5".
double read_headroom(const std::string& text) {
  double percent = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc{} || (rest != "" && rest != "%") || !(percent >= 0 && percent < 100))
    throw ConfigError(fmt::format("--headroom {}; legal: a percentage of the memory below 100, such as 5%", text));
  return percent / 100;
}

constexpr int kRanksOfAHost = 64;

// What ranks on one host need together, in bytes.
struct HostTotals {
  size_t all = 0, staging = 0, offloaded = 0;
};

HostTotals totals_of_host(MemorySearch& search, const Mesh& mesh) {
  HostTotals t;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Prediction& p = search.exact(search.roles().of(rank));
    t.all += p.device_bytes();
    t.staging += p.staging_bytes;
    t.offloaded += p.offloaded_bytes;
  }
  return t;
}

RankMemory on_this_machine(const Prediction& p, const HostTotals& host, const MemorySection& budget, int rank,
                           const Ops& ops) {
  const int64_t available = MemoryWatch::available(ops), unknown = std::numeric_limits<int64_t>::max();
  RankMemory m;
  m.rank = rank;
  m.prediction = p;
  m.bytes = static_cast<int64_t>(p.required_bytes());
  m.device_bytes = static_cast<int64_t>(p.budgeted_device_bytes());
  m.available = available > 0 ? available : unknown;
  m.node_staging = static_cast<int64_t>(host.staging);
  m.node_offloaded = static_cast<int64_t>(host.offloaded);
  set_budget(m, budget);
  return m;
}

// Adds what only a plan that is printed needs: it takes dry runs of many ranks.
Estimate with_bytes_between_nodes(Estimate e) {
  if (const double bytes = bytes_between_nodes(e.spec, *make_counting_ops()); bytes > 0) e.between_nodes = bytes;
  return e;
}

// Plans without a cluster description: memory, work and traffic, which need no rates.
void plan_here(const PlanArguments& a, RunSpec spec) {
  const auto ops = open_device(spec.run.device, spec.run.threads);
  const auto counting = make_counting_ops(ops.get());
  const Mesh mesh = arrange(spec, ranks_of(spec.parallel, a.ranks), ArrangedBy::plan);
  const PipelinePlan pipeline = plan_pipeline(spec);
  const bool one_host = mesh.size() <= kRanksOfAHost;  // else the ranks of a node are not known: at least this one
  // The ranks of a run divide the cores of their host.
  if (spec.run.threads == 0 && one_host) set_threads(std::max(1, available_cores() / mesh.size()));
  MemorySearch search(spec, pipeline, mesh, *counting);
  const int worst = search.worst(), rank = search.roles().rank(worst);
  const Prediction& p = search.exact(worst);
  const HostTotals host =
      one_host ? totals_of_host(search, mesh) : HostTotals{p.device_bytes(), p.staging_bytes, p.offloaded_bytes};
  if (a.json) {
    Estimate e;
    e.spec = spec;
    e.ranks = mesh.size();
    e.memory = on_this_machine(p, host, spec.memory, rank, *ops);
    nlohmann::ordered_json j = estimate_json(with_bytes_between_nodes(e));
    j["time"] = nullptr;
    j["alternatives"] = nlohmann::json::array();
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}\n{}\ndevice                {:>12}\n", describe_model(spec.model), printable(describe_length(spec)),
               ops->name());
    if (mesh.size() > 1)
      fmt::print("ranks                 {:>12}   {}; the figures below are for rank {}, which needs most memory\n",
                 mesh.size(), describe(spec.parallel), rank);
    fmt::print("{}", describe(pipeline, step_sizes(spec.train, mesh.dp()).back()));
    fmt::print("{}", describe(p, spec));
    if (mesh.size() > 1 && one_host && !ops->device_memory())
      fmt::print("all ranks on one host {:>12.2f} GiB\n",
                 static_cast<double>(host.all) / static_cast<double>(size_t{1} << 30));
    if (const double bytes = bytes_between_nodes(spec, *counting); bytes > 0)
      fmt::print("sent by a node to others {:>9.3f} MiB a step\n", bytes / (1 << 20));
    if (a.explain) fmt::print("{}", explain(p));
    fmt::print("\ntimes: not predicted; they need a cluster description, by --cluster FILE or parallel.cluster\n");
  }
  std::fflush(stdout);
  try {
    require_fit(p, memory_need_of(p), *ops);
    require_within_budget(p, host.staging + host.offloaded, spec.memory);
  } catch (const ConfigError& e) {
    throw ConfigError(fmt::format("{}; {}", e.what(), nearest_here(spec, mesh.size(), 1, *ops)));
  }
}

void print_estimate(const Estimate& e, const ClusterSpec& cluster) {
  fmt::print("{}",
             describe(plan_pipeline(e.spec), step_sizes(e.spec.train, static_cast<int>(e.spec.parallel.data)).back()));
  fmt::print("{}", printable(describe_time(with_bytes_between_nodes(e), cluster)));
  std::fflush(stdout);
}

void print_plan_json(const Estimate& e, const Search& found, const std::optional<Choice>& nearest,
                     const std::vector<DialRow>& dial = {}) {
  nlohmann::ordered_json j = estimate_json(with_bytes_between_nodes(e));
  if (!dial.empty()) j["dial"] = dial_json(dial, found.best->plan);
  j["alternatives"] = alternatives_json(found);
  if (nearest)
    j["nearest"] = {{"keys", changed_keys(plan_of(e.spec), nearest->plan)}, {"plan", plan_json(nearest->plan)}};
  fmt::print("{}\n", j.dump(2));
  std::fflush(stdout);
}

// Prints whether the plan fits in memory first, as the rest takes longer.
void check_plan(const PlanArguments& a, RunSpec spec, int ranks, const ClusterSpec& cluster) {
  arrange(spec, ranks, ArrangedBy::plan);
  Estimator estimator(cluster, &cpu_backend());
  const RankMemory memory = estimator.memory(spec, ranks);
  if (!a.json) fmt::print("{}\n", printable(describe_memory(memory, cluster)));
  std::fflush(stdout);
  const auto nearest = memory.fits() ? std::nullopt : nearest_fitting(spec, ranks, cluster, estimator);
  if (a.explain && !a.json) fmt::print("{}", explain(memory.prediction));
  const Estimate e = estimator.estimate(spec, ranks);
  if (a.json)
    print_plan_json(e, {}, nearest);
  else
    print_estimate(e, cluster);
  if (!memory.fits()) throw ConfigError(does_not_fit(memory, plan_of(spec), nearest));
}

// Whether the question is how to save memory: with a budget, or if all degrees are written.
bool shows_dial(const RunSpec& spec) {
  return spec.memory.has_budget() || std::ranges::all_of(open_keys(), [&](const OpenKey& key) {
           return key.path.starts_with("memory.") || !is_open(spec, key.name);
         });
}

SearchLimits limits_of(const PlanArguments& a) {
  SearchLimits limits;
  limits.estimates =
      std::max(static_cast<int>(limits.estimates * std::max(1.0, a.seconds / limits.seconds)), 3 * a.alternatives);
  limits.seconds = a.seconds;
  limits.alternatives = a.alternatives;
  return limits;
}

void choose_plan(const PlanArguments& a, const RunSpec& spec, int ranks, const ClusterSpec& cluster) {
  Estimator estimator(cluster, &cpu_backend());
  const Search found = search(spec, ranks, cluster, estimator, limits_of(a));
  if (!found.best) throw ConfigError(nothing_fits(found, ranks, cluster));
  const Estimate& e = found.best->estimate;
  std::vector<DialRow> dial;
  if (shows_dial(spec)) dial = turn_dial(spec, found.best->plan, ranks, cluster, estimator);
  if (a.json) return print_plan_json(e, found, {}, dial);
  fmt::print("{}\n", printable(describe_memory(e.memory, cluster)));
  print_estimate(e, cluster);
  fmt::print("\n{}", printable(describe_search(found)));
  if (!dial.empty()) fmt::print("\n{}", printable(describe_dial(dial, found.best->plan)));
  if (!found.complete())
    fmt::print("the search stopped at its limit of {}; --seconds {:g} raises it\n", found.limit, 2 * a.seconds);
}

// Prints the longest sequence or the largest model that fits, its plan and time, and what limits it.
void plan_largest(const PlanArguments& a, RunSpec spec, int ranks, const ClusterSpec& cluster) {
  const std::vector<std::string> memory_keys = std::exchange(spec.parallel.open, {});
  arrange(spec, ranks, ArrangedBy::plan);
  spec.parallel.open = memory_keys;
  Estimator estimator(cluster, &cpu_backend());
  const Largest found = (a.longest ? longest_sequence : largest_model)(spec, ranks, cluster, estimator, limits_of(a));
  const bool illegal = found.beyond.available == 0;
  const std::string limit = found.too_large == 0 ? ""
                            : illegal            ? "not possible with these keys"
                                                 : overrun(found.beyond);
  const std::string too_large = a.longest ? fmt::format("sequences of {} tokens are {}", found.too_large, limit)
                                          : fmt::format("models of {} layers are {}", found.too_large, limit);
  if (found.size == 0) throw ConfigError(fmt::format("nothing fits: {}", too_large));
  const RunSpec& fits = found.estimate.spec;
  const int64_t parameters = parameter_count(fits.model);
  if (a.json) {
    nlohmann::ordered_json j = estimate_json(found.estimate);
    if (a.longest)
      j["longest_sequence"] = found.size;
    else
      j["largest_model"] = {{"parameters", parameters},        {"layers", fits.model.layers},
                            {"hidden", fits.model.hidden},     {"heads", fits.model.heads},
                            {"kv_heads", fits.model.kv_heads}, {"ffn", fits.model.ffn}};
    j["limit"] = found.too_large > 0
                     ? nlohmann::ordered_json{{a.longest ? "sequence" : "layers", found.too_large}, {"over", limit}}
                     : nlohmann::ordered_json();
    fmt::print("{}\n", j.dump(2));
    return;
  }
  if (a.longest)
    fmt::print("longest sequence      {:>12} tokens   {}\n", found.size, describe(plan_of(fits)));
  else
    fmt::print("largest model         {:>12} parameters   {}\nplan                  {}\n", grouped(parameters),
               describe_model(fits.model), describe(plan_of(fits)));
  fmt::print("limit                 {}\n\n",
             found.too_large > 0 ? too_large
             : a.longest && spec.model.traits().learned_positions
                 ? fmt::format("model.max_position = {}, not memory", spec.model.max_position)
                 : "none was found: larger ones are not tried");
  fmt::print("{}\n", printable(describe_memory(found.estimate.memory, cluster)));
  print_estimate(found.estimate, cluster);
}

void run_plan(PlanArguments& a) {
  const RunSpec spec = read_plan_spec(a);
  std::optional<ClusterSpec> cluster = cluster_for(spec, a.cluster);
  if (!a.headroom.empty() && !cluster)
    throw ConfigError("--headroom needs a cluster description: --cluster FILE or parallel.cluster");
  if (!a.headroom.empty()) cluster->headroom = read_headroom(a.headroom);
  if (!cluster && !spec.parallel.open.empty()) throw ConfigError(missing_cluster_message());
  if (!cluster && (a.longest || a.largest)) throw ConfigError(missing_cluster_message());
  if (!cluster) return plan_here(a, spec);
  const int ranks = ranks_of(spec.parallel, a.ranks);
  if (!a.json) {
    fmt::print("{}\n{}\n", describe_model(spec.model), printable(describe_length(spec)));
    if (spec.parallel.open.empty() && ranks > 1) {
      RunSpec arranged = spec;  // with the degree that parallel.data: 0 leaves open
      arrange(arranged, ranks, ArrangedBy::plan);
      fmt::print("{} ranks: {}\n", ranks, describe(arranged.parallel));
    }
  }
  if (a.longest || a.largest)
    plan_largest(a, spec, ranks, *cluster);
  else if (spec.parallel.open.empty())
    check_plan(a, spec, ranks, *cluster);
  else
    choose_plan(a, spec, ranks, *cluster);
}

}  // namespace

void add_plan_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<PlanArguments>();
  cli::App* command = app.add_subcommand(
      "plan", "Predict memory, work and time of a run, or choose its parallel plan; exit code 2 if it does not fit");
  command->add_option("RUN.yaml", a->file, "run spec (YAML)")->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--ranks", a->ranks, "number of ranks of the run; default: the product of the degrees in `parallel`")
      ->check(cli::Range(1, 1 << 20));
  command->add_option("--cluster", a->cluster,
                      "cluster description for predicted times: a file, or a name in configs/clusters; "
                      "default: parallel.cluster");
  command->add_option("--headroom", a->headroom,
                      "part of the cluster's memory that a plan leaves free, such as 5%; default: headroom in the "
                      "cluster description, where 5% is the default");
  command->add_option("--seconds", a->seconds, "seconds of processor time to search in, if a plan is chosen")
      ->capture_default_str()
      ->check(cli::Range(0.1, 86400.0));
  cli::Option* longest = command->add_flag(
      "--longest", a->longest,
      "find the longest sequence that fits, and what limits it; keys of the section `memory` that are not "
      "written are chosen");
  cli::Option* largest =
      command
          ->add_flag(
              "--largest", a->largest,
              "find the largest model that fits, and what limits it: layers and hidden size grow in the ratio of the "
              "run's model, and the size of heads stays")
          ->excludes(longest);
  command->add_flag("--explain", a->explain, "also show which implementations run and why others do not")
      ->excludes(longest)
      ->excludes(largest);
  command
      ->add_option("--alternatives", a->alternatives, "minimum number of runner-up plans to show, if a plan is chosen")
      ->excludes(longest)
      ->excludes(largest)
      ->capture_default_str()
      ->check(cli::Range(1, 100));
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] { run_plan(*a); });
}

}  // namespace fp
