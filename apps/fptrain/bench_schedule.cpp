#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench.h"
#include "comm/backends.h"
#include "launch/environment.h"
#include "ranks.h"
#include "schedule_pictures.h"

namespace fp {
namespace {

struct ScheduleBenchArguments {
  std::vector<std::string> kinds;
  std::vector<int> stages;
  int micro_batches = 0, chunks = 0, repeat = 3;
  double unit_ms = 10;
  bool w_pass = false, json = false;
  std::string svg;
};

std::vector<ScheduleRequest> requests_of(const ScheduleBenchArguments& a) {
  std::vector<std::pair<PipelineSchedule, bool>> kinds;  // second: with the W pass
  for (const std::string& kind : a.kinds) kinds.emplace_back(schedule_kind_named(kind), a.w_pass);
  if (kinds.empty()) {
    for (const PipelineSchedule kind : schedule_kinds()) kinds.emplace_back(kind, false);
    for (const PipelineSchedule kind :
         {PipelineSchedule::one_f_one_b, PipelineSchedule::chimera, PipelineSchedule::bitpipe})
      kinds.emplace_back(kind, true);
  }
  std::vector<ScheduleRequest> requests;
  for (const int p : a.stages)
    for (const auto& [kind, w_pass] : kinds) {
      ScheduleRequest r;
      r.kind = kind;
      r.ranks = p;
      r.micro_batches = a.micro_batches > 0 ? a.micro_batches : 2 * p;
      r.chunks = a.chunks;
      r.w_pass = w_pass;
      requests.push_back(complete(r));
    }
  return requests;
}

// A rank's part of the model costs the same for every kind: with v stages per rank, each costs 1/v of it.
Costs costs_of_request(const ScheduleRequest& r) {
  const double stage = 2.0 / r.chunks;
  Costs costs;
  costs.each = {stage, stage, stage};
  return costs;
}

int passes_a_rank(const Schedule& s) {
  size_t most = 0;
  for (const auto& list : s.ranks) most = std::max(most, list.size());
  return static_cast<int>(most);
}

double overhead_us(const MeasuredSchedule& m, double unit_ms) {
  const ScheduleTimes& t = m.times;
  return (t.median().makespan - t.simulated.makespan) * unit_ms * 1e3 / passes_a_rank(m.schedule);
}

nlohmann::json to_json(const ScheduleBenchArguments& a, bool processes, const std::vector<MeasuredSchedule>& all) {
  nlohmann::json rows = nlohmann::json::array();
  for (const MeasuredSchedule& m : all) {
    const ScheduleTimes& t = m.times;
    nlohmann::json rounds = nlohmann::json::array();
    for (const Timing& round : t.executed) rounds.push_back(round.makespan);
    rows.push_back({{"schedule", m.name},
                    {"ranks", m.schedule.placement.ranks},
                    {"chunks", m.schedule.placement.chunks},
                    {"micro_batches", m.schedule.micro_batches},
                    {"simulated_units", t.simulated.makespan},
                    {"executed_units", t.median().makespan},
                    {"executed_units_of_rounds", rounds},
                    {"simulated_bubble", t.simulated.bubble},
                    {"executed_bubble", t.median().bubble},
                    {"passes_a_rank", passes_a_rank(m.schedule)},
                    {"overhead_us_a_pass", overhead_us(m, a.unit_ms)},
                    {"late_us_a_pass", t.late_units * a.unit_ms * 1e3}});
  }
  return {{"unit_ms", a.unit_ms}, {"ranks_are", processes ? "processes" : "threads"}, {"schedules", rows}};
}

void print(const ScheduleBenchArguments& a, const std::vector<MeasuredSchedule>& all) {
  fmt::print("a unit is {:g} ms; executed: median of {}; overhead: executed - simulated, a pass of a rank\n", a.unit_ms,
             a.repeat);
  fmt::print("{:<16}{:>4}{:>5}{:>12}{:>12}{:>12}{:>11}{:>8}{:>14}{:>14}\n", "schedule", "p", "m", "simulated",
             "executed", "sim bubble", "exe bubble", "points", "overhead us", "of that late");
  for (const MeasuredSchedule& m : all) {
    const Timing &plan = m.times.simulated, &run = m.times.median();
    fmt::print("{:<16}{:>4}{:>5}{:>12.1f}{:>12.2f}{:>11.2f}%{:>10.2f}%{:>8.2f}{:>14.0f}{:>14.0f}\n", m.name,
               m.schedule.placement.ranks, m.schedule.micro_batches, plan.makespan, run.makespan, 100 * plan.bubble,
               100 * run.bubble, 100 * (run.bubble - plan.bubble), overhead_us(m, a.unit_ms),
               m.times.late_units * a.unit_ms * 1e3);
  }
}

// The schedules run on the ranks of `world`, or on threads of this process if it is null.
std::vector<MeasuredSchedule> measure_schedules(const ScheduleBenchArguments& a,
                                                const std::vector<ScheduleRequest>& requests, World* world) {
  std::vector<MeasuredSchedule> all;
  for (const ScheduleRequest& r : requests) {
    const Costs costs = costs_of_request(r);
    MeasuredSchedule m{fmt::format("{}{}", r.kind, r.w_pass ? "+W" : ""), generate(r, costs), {}};
    const auto run = [&](World& ranks) {
      ScheduleTimes times = time_schedule(ranks, m.schedule, costs, a.unit_ms / 1e3, a.repeat);
      if (ranks.rank() == 0) m.times = std::move(times);
    };
    if (world != nullptr)
      run(*world);
    else
      run_thread_ranks(r.ranks, run);
    all.push_back(std::move(m));
  }
  return all;
}

ExitCode bench_schedule(ScheduleBenchArguments a) {
  const LaunchEnvironment launched = read_environment();
  const bool processes = launched.size > 1;
  if (a.stages.empty()) a.stages = processes ? std::vector<int>{launched.size} : std::vector<int>{4, 8};
  if (processes && a.stages != std::vector<int>{launched.size})
    throw ConfigError(
        fmt::format("--stages {} on {} ranks; leave it out, or run without mpirun: stages are threads then",
                    fmt::join(a.stages, ","), launched.size));
  const std::vector<ScheduleRequest> requests = requests_of(a);
  if (std::error_code failed; launched.rank == 0 && !a.svg.empty()) {
    std::filesystem::create_directories(a.svg, failed);
    if (failed) throw ConfigError(fmt::format("--svg {}: cannot be created: {}", a.svg, failed.message()));
  }
  const auto report = [&](const std::vector<MeasuredSchedule>& all) {
    if (a.json)
      fmt::print("{}\n", to_json(a, processes, all).dump());
    else
      print(a, all);
    if (!a.svg.empty()) draw_schedules(all, a.svg);
  };
  if (!processes) {
    report(measure_schedules(a, requests, nullptr));
    return ExitCode::ok;
  }
  Ranks ranks;
  ranks.start(Mesh(launched.size, 1, 1, 1, launched.size), WatchdogSection());
  return ranks.run([&] {
    ranks.require_same_command_line();
    const auto all = measure_schedules(a, requests, &ranks.world());
    if (ranks.world().rank() == 0) report(all);
    return ExitCode::ok;
  });
}

}  // namespace

void add_bench_schedule(cli::App& bench, CommandResult& result) {
  const auto a = std::make_shared<ScheduleBenchArguments>();
  cli::App* command = bench.add_subcommand(
      "schedule",
      "Run pipeline schedules whose ranks only sleep, and compare them with their simulation. Ranks are threads, "
      "or the ranks of mpirun");
  cli::Option* const kind =
      command
          ->add_option("--kind", a->kinds,
                       fmt::format("{}; repeatable. Default: all, and also 1f1b, chimera, bitpipe with --w-pass",
                                   fmt::join(schedule_kinds(), ", ")))
          ->take_all()
          ->allow_extra_args(false);
  command->add_option("--stages", a->stages, "numbers of pipeline ranks: 4,8")
      ->delimiter(',')
      ->check(cli::PositiveNumber);
  command->add_option("--microbatches", a->micro_batches, "micro-batches of a step; default: twice the ranks")
      ->check(cli::PositiveNumber);
  command->add_option("--chunks", a->chunks, "stages of each rank, for kinds that have a choice")
      ->check(cli::PositiveNumber);
  command
      ->add_option("--unit-ms", a->unit_ms,
                   "duration of F, B or W of half of a rank's part of the model: of a stage if a rank has two; twice "
                   "that if it has one")
      ->capture_default_str()
      ->check(cli::Range(1e-6, 1e6));
  command->add_option("--repeat", a->repeat, "number of rounds, of which the median is reported")
      ->capture_default_str()
      ->check(cli::PositiveNumber);
  command->add_flag("--w-pass", a->w_pass, "with --kind: split weight gradients off and move them into the bubbles")
      ->needs(kind);
  command->add_flag("--json", a->json, "one JSON object");
  command->add_option("--svg", a->svg,
                      "folder for pictures of the bubbles and of each schedule, simulated and executed");
  command->callback([a, &result] { result.code = bench_schedule(*a); });
}

}  // namespace fp
