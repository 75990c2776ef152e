// fptrain schedule: shows a pipeline schedule with its time, bubble and memory, without running it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "pipeline/text.h"
#include "pipeline/verify.h"

namespace fp {
namespace {

struct ScheduleArguments {
  std::string kind;
  ScheduleRequest request{.ranks = 0, .micro_batches = 0};
  std::vector<double> costs = {1, 1, 1, 0};
  std::string file, svg, out;
  int slots = 0;
  bool csv = false, timeline = false, json = false;
};

Costs costs_of_times(const std::vector<double>& times) {
  constexpr double kLongest = 1e12;
  const bool legal = times.size() == 4 && *std::min_element(times.begin(), times.end()) >= 0 &&
                     std::all_of(times.begin(), times.end(), [](double t) { return t <= kLongest; }) &&
                     times[0] + times[1] + times[2] > 0;
  if (!legal)
    throw ConfigError(fmt::format(
        "--costs {}: use four times of a chunk, not negative and at most 1e12: forward, backward to the input, "
        "backward to the weights, hop between ranks, such as 1,1,1,0",
        fmt::join(times, ",")));
  return {.each = {times[0], times[1], times[2]}, .by_stage = {}, .hop = times[3]};
}

// Infers the options that a schedule was lowered with, as far as it shows them, and else the most permissive ones.
LoweringOptions options_of(const Schedule& s, const Costs& costs) {
  LoweringOptions options{.costs = costs, .sends_in_flight = std::max(1, s.micro_batches)};
  options.resident = s.placement.stages();
  for (const std::vector<Action>& list : s.ranks) {
    int gradients = 0, before_sum = 0;
    const auto sum =
        std::find_if(list.begin(), list.end(), [](const Action& a) { return a.kind == ActionKind::reduce; });
    for (auto a = list.begin(); a != list.end(); ++a) {
      options.gather |= a->kind == ActionKind::gather;
      const bool counts = sum != list.end() && a->stage == sum->stage && completes_gradient(a->kind);
      gradients += counts;
      before_sum += counts && a < sum;
    }
    if (before_sum < gradients) options.reduce_every = before_sum;
  }
  return options;
}

Schedule read_schedule(const std::string& file, const Costs& costs) {
  const Schedule s = load_schedule(file);
  const auto wrong = is_lowered(s) ? verify_lowered(s, options_of(s, costs)) : verify(s);
  if (!wrong.empty()) throw DataError(fmt::format("{}: invalid schedule:\n  {}", file, fmt::join(wrong, "\n  ")));
  return s;
}

Schedule schedule_of(const ScheduleArguments& a, const Costs& costs) {
  if (!a.file.empty()) return read_schedule(a.file, costs);
  if (a.kind.empty() || a.request.ranks == 0 || a.request.micro_batches == 0)
    throw ConfigError(fmt::format("give --kind, --stages and --microbatches, or --file; kinds are {}",
                                  fmt::join(schedule_kinds(), ", ")));
  ScheduleRequest request = a.request;
  request.kind = schedule_kind_named(a.kind);
  return generate(request, costs);
}

std::string title_of(const Schedule& s, const ScheduleArguments& a) {
  const Placement& p = s.placement;
  return fmt::format("{}{}, {} rank{}, {} chunk{} each, {} micro-batch{}", s.kind, a.request.w_pass ? " + W pass" : "",
                     p.ranks, p.ranks == 1 ? "" : "s", p.chunks, p.chunks == 1 ? "" : "s", s.micro_batches,
                     s.micro_batches == 1 ? "" : "es");
}

std::string as_json(const Schedule& s, const Timing& t, const ScheduleArguments& a) {
  const nlohmann::ordered_json all = {{"kind", s.kind},
                                      {"w_pass", a.request.w_pass},
                                      {"stages", s.placement.ranks},
                                      {"microbatches", s.micro_batches},
                                      {"chunks", s.placement.chunks},
                                      {"pipes", s.placement.pipes()},
                                      {"costs", a.costs},
                                      {"makespan", t.makespan},
                                      {"work", t.work},
                                      {"bubble", t.bubble},
                                      {"span_bubble", t.span_bubble},
                                      {"peak_chunks", t.peak_chunks},
                                      {"messages_per_microbatch", t.messages_per_micro_batch}};
  return all.dump(2) + "\n";
}

// True if the lines of the text timeline are short enough to read.
bool readable(const Schedule& s) {
  size_t longest = 0;
  for (const auto& list : s.ranks) longest = std::max(longest, list.size());
  return longest <= 200;
}

std::string as_text(const Schedule& s, const Timing& t, const ScheduleArguments& a) {
  const Placement& p = s.placement;
  std::string text = title_of(s, a) + "\n";
  const auto line = [&](const char* name, const std::string& value, const std::string& what) {
    text += fmt::format("{:<22}{:>12}   {}\n", name, value, what);
  };
  line("makespan", fmt::format("{:g}", t.makespan),
       fmt::format("a chunk's forward takes {:g}, backward {:g} to the input and {:g} to the weights, a hop {:g}",
                   a.costs[0], a.costs[1], a.costs[2], a.costs[3]));
  line("work", fmt::format("{:g}", t.work), "of the busiest rank");
  line("bubble", fmt::format("{:.1f} %", 100 * t.bubble), "of the step, which ends on all ranks together");
  line("idle within spans", fmt::format("{:.1f} %", 100 * t.span_bubble),
       "of the longest time from a rank's first action to its last");
  const auto most = std::max_element(t.peak_chunks.begin(), t.peak_chunks.end());
  line("peak memory", fmt::format("{}", *most),
       fmt::format("chunks with stored activations, as many as {:g} micro-batches leave on a rank; by rank: {}",
                   static_cast<double>(*most) / p.chunks, fmt::join(t.peak_chunks, " ")));
  line("weights", fmt::format("{}", p.pipes()),
       p.two_way ? "copies of the model: each stage is held by two ranks" : "copy of the model");
  line("messages", fmt::format("{:g}", t.messages_per_micro_batch),
       "between ranks, a micro-batch, forward and backward");
  if (a.timeline || readable(s)) return text + fmt::format("\n{}\n{}", timeline_legend(s), text_timeline(s, t));
  return text + "(--timeline prints the timeline of each rank, in long lines; --svg draws it)\n";
}

// Simulates with at most `slots` messages of a channel in flight (0: any number); adds messages if the schedule has
// none.
Timing simulate_slots(Schedule& s, Costs costs, int slots) {
  if (slots > 0 && !is_lowered(s)) s = lower(s, {.costs = costs, .sends_in_flight = slots});
  costs.slots = slots;
  return simulate(s, costs);
}

void run_schedule(const ScheduleArguments& a) {
  const Costs costs = costs_of_times(a.costs);
  Schedule s = schedule_of(a, costs);
  const Timing t = simulate_slots(s, costs, a.slots);
  if (!a.svg.empty()) output_file(a.svg, "--svg", svg_timeline(s, t, title_of(s, a)));
  const std::string text = a.csv ? to_csv(s) : a.json ? as_json(s, t, a) : as_text(s, t, a);
  if (a.out.empty())
    fmt::print("{}", text);
  else
    output_file(a.out, "--out", text);
}

}  // namespace

void add_schedule_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<ScheduleArguments>();
  cli::App* command = app.add_subcommand("schedule", "Show a pipeline schedule: its order, bubble and memory");
  ScheduleRequest& q = a->request;
  std::vector<cli::Option*> of_request = {
      command->add_option("--kind", a->kind, fmt::format("{}", fmt::join(schedule_kinds(), ", "))),
      command->add_option("--stages", q.ranks, "ranks of the pipeline")->check(cli::PositiveNumber),
      command->add_option("--microbatches", q.micro_batches, "micro-batches of a step, over all pipes")
          ->check(cli::PositiveNumber),
      command->add_option("--chunks", q.chunks, "stages of each rank; 0: the default of the kind"),
      command->add_option("--group", q.group, "interleaved, interleaved-zb: consecutive micro-batches of a chunk"),
      command->add_option("--unit-size", q.unit_size, "zeropp: micro-batches of a scheduling unit"),
      command->add_option("--warmup", q.warmup, "zeropp: 1 (less memory) or 2 (no bubble between units)"),
      command->add_option("--window", q.window, "wave: micro-batches in flight"),
      command->add_flag("--w-pass", q.w_pass, "split weight gradients off and move them into the bubbles"),
      command->add_option("--memory-cap", q.memory_cap,
                          "with --w-pass: maximum stages x micro-batches held by a rank; 0: as many as without it"),
  };
  cli::Option* file =
      command->add_option("--file", a->file, "a schedule as CSV, in PyTorch's format, instead of a kind");
  for (cli::Option* option : of_request) file->excludes(option);
  command
      ->add_option("--costs", a->costs,
                   "times of a chunk: forward, input gradient, weight gradient; and of a hop between ranks")
      ->delimiter(',')
      ->expected(4)
      ->capture_default_str();
  command
      ->add_option("--slots", a->slots,
                   "messages in flight in one direction between two stages; the executor allows 2. 0: any number")
      ->check(cli::Range(0, 1 << 20));
  cli::Option* timeline =
      command->add_flag("--timeline", a->timeline, "show the timeline of each rank, however long the lines are");
  cli::Option* json = command->add_flag("--json", a->json, "print one JSON object")->excludes(timeline);
  command->add_flag("--csv", a->csv, "print the schedule as CSV")->excludes(json)->excludes(timeline);
  command->add_option("--svg", a->svg, "also draw a picture to this file");
  command->add_option("--out", a->out, "write to this file instead of printing");
  command->callback([a] { run_schedule(*a); });
}

}  // namespace fp
