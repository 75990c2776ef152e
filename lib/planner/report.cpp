#include "planner/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/human_text.h"

namespace fp {
namespace {

using OrderedJson = nlohmann::ordered_json;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string row(const std::string& name, const std::string& value, const std::string& note = "") {
  return fmt::format("  {:<26}{:>12}{}{}\n", name, value, note.empty() ? "" : " ", note);
}

std::string row(const std::string& name, double value, const std::string& note = "") {
  return row(name, three_digits(value), note);
}

// Lines in GiB whose rounded values add up to the rounded total.
class MemoryTable {
 public:
  explicit MemoryTable(int64_t total) : total_(total), decimals_(gib(total) >= 1 ? 2 : gib(total) >= 0.01 ? 4 : 6) {}

  void add(const std::string& name, int64_t bytes) {
    if (bytes > 0) lines_.emplace_back(name, units(bytes));
    rest_ -= bytes > 0 ? units(bytes) : 0;
  }
  // Adds what the lines leave of the total. If that is only due to rounding, the largest line takes it.
  void add_rest(const std::string& name) {
    const int64_t rest = units(total_) + rest_;
    const auto largest = std::ranges::max_element(lines_, {}, [](const auto& l) { return l.second; });
    if (rest > 0 || lines_.empty())
      lines_.emplace_back(name, rest);
    else
      largest->second += rest;
  }
  std::string text(const std::string& note) const {
    std::string text;
    for (const auto& [name, value] : lines_) text += row(name, in_gib(value));
    return text + row("all it needs", shown(total_), note);
  }
  std::string shown(int64_t bytes) const { return in_gib(units(bytes)); }

 private:
  // The last decimal that is shown.
  int64_t units(int64_t bytes) const { return std::llround(gib(bytes) * std::pow(10, decimals_)); }
  std::string in_gib(int64_t n) const {
    return fmt::format("{:.{}f}", static_cast<double>(n) / std::pow(10, decimals_), decimals_);
  }

  int64_t total_;
  int decimals_;
  int64_t rest_ = 0;
  std::vector<std::pair<std::string, int64_t>> lines_;
};

// "15.7 days": in the largest unit of which there are two or more.
std::string long_time(double seconds) {
  constexpr std::array<std::pair<double, std::string_view>, 3> kUnits = {
      {{86400, "days"}, {3600, "hours"}, {60, "minutes"}}};
  for (const auto& [length, name] : kUnits)
    if (seconds >= 2 * length) return fmt::format("{} {}", three_digits(seconds / length), name);
  return three_digits(seconds) + " seconds";
}

std::string describe_run(const Estimate& e, const ClusterSpec& cluster) {
  const int64_t steps = e.spec.train.steps;
  const double seconds = static_cast<double>(steps) * e.time.total;
  return fmt::format("{} step{}: {}, {} {} hours, without evaluation and saves\n", grouped(steps),
                     steps == 1 ? "" : "s", long_time(seconds), three_digits(seconds * e.ranks / 3600),
                     cluster.device == ClusterDevice::cuda ? "GPU" : "rank");
}

OrderedJson or_null(double value) { return value > 0 ? OrderedJson(value) : OrderedJson(nullptr); }

}  // namespace

std::string describe_memory(const RankMemory& m, const ClusterSpec& cluster) {
  const Prediction& p = m.prediction;
  MemoryTable table(m.bytes);
  for (int c = 0; c < kMemoryClasses; ++c)
    table.add(name_of(static_cast<MemoryClass>(c)), static_cast<int64_t>(p.by_class[static_cast<size_t>(c)]));
  const auto staging = static_cast<int64_t>(p.staging_bytes);
  const auto each_offloaded = [&p](const auto& use) {
    for (int c = 0; c < kMemoryClasses; ++c)
      if (const size_t bytes = p.offloaded[static_cast<size_t>(c)]; bytes > 0)
        use(fmt::format("offloaded {}", name_of(static_cast<MemoryClass>(c))), static_cast<int64_t>(bytes));
  };
  if (p.on_host) {
    table.add("staging of saves", staging);
    each_offloaded([&](const std::string& name, int64_t bytes) { table.add(name, bytes); });
  }
  table.add("reserved for libraries", static_cast<int64_t>(p.reserved_bytes));
  table.add_rest("runtime and buffers");
  std::string text = fmt::format("memory of rank {}, which needs most, GiB\n", m.rank);
  text += table.text(fmt::format(
      "of {} on {}{}", table.shown(m.available), cluster.name,
      m.headroom == 0
          ? ""
          : fmt::format(" ({} less {:g} % headroom)", table.shown(m.available + m.headroom), 100 * cluster.headroom)));
  if (!p.on_host) {
    each_offloaded([&](const std::string& name, int64_t bytes) {
      text += row(name, table.shown(bytes), "beside it, of host memory");
    });
    if (staging > 0) text += row("staging of saves", table.shown(staging), "beside it, of host memory");
  }
  if (m.node_bytes > 0)
    text += row("all ranks of its node", table.shown(m.node_bytes),
                fmt::format("of {}{}", table.shown(m.node_available), p.on_host ? "" : " of host memory"));
  const auto budget = [&](const char* name, int64_t bytes, int64_t most) {
    if (most != RankMemory::kNoBudget)
      text += row(name, table.shown(bytes), fmt::format("of a budget of {}", table.shown(most)));
  };
  budget("memory of the device", m.device_bytes, m.device_budget);
  budget("host memory of its node", m.host_bytes(), m.host_budget);
  return text + (m.fits() ? "fits\n" : overrun(m) + fmt::format(" on rank {}\n", m.rank));
}

std::string describe_time(const Estimate& e, const ClusterSpec& cluster) {
  const StepTime& t = e.time;
  std::string text = fmt::format("a step on {}, seconds\n", cluster.name);
  text += row("compute", t.compute) + row("exposed communication", t.exposed);
  text += row("bubble", t.bubble) + row("update", t.update);
  if (t.copies > 0) text += row("exposed copies", t.copies, "between device and host, and updates by the host");
  text += row("all", t.total);
  if (e.between_nodes) text += row("GiB between nodes", *e.between_nodes / (1 << 30), "sent by a node");
  text += row("tokens a second", e.tokens_per_s);
  text += row("model TFLOP/s a rank", e.model_tflops, e.mfu > 0 ? fmt::format("MFU {:.1f} %", 100 * e.mfu) : "");
  text += describe_run(e, cluster);
  return text +
         fmt::format("rates of {}: {}\n", cluster.name, cluster.source.empty() ? "of unknown source" : cluster.source);
}

std::string describe_search(const Search& s) {
  if (!s.best) return {};
  const auto line = [](const Choice& c, const std::string& why) {
    return fmt::format("  {:>10.4g} s {:>8.2f} GiB  {}{}{}\n", c.estimate.time.total, gib(c.estimate.memory.bytes),
                       describe(c.plan), c.exact ? "" : " (about)",
                       why.empty() ? "" : "\n" + std::string(28, ' ') + why);
  };
  std::string text =
      fmt::format("chosen of {} arrangements; {} plans estimated, {} of them exactly{}\n", s.leads, s.quick_estimates,
                  s.estimates, s.complete() ? "" : "; the search stopped at its limit of " + s.limit);
  text += line(*s.best, "chosen: " + written_keys(s.best->plan));
  for (const Choice& c : s.alternatives) text += line(c, c.why);
  for (const std::string& remark : s.remarks) text += remark + "\n";
  return text;
}

std::string describe_dial(const std::vector<DialRow>& rows, const Plan& chosen) {
  std::string text = "plans by device memory, GiB, and the price of each GiB saved, relative to the row before\n";
  text += fmt::format("  {:>10} {:>10} {:>10} {:>10}\n", "device", "host", "step, s", "ms/GiB");
  for (const DialRow& r : rows) {
    const RankMemory& m = r.choice.estimate.memory;
    const std::string price = &r == &rows.front() ? "-" : three_digits(r.ms_per_gib);
    text += fmt::format("  {:>10.2f} {:>10.2f} {:>10.4g} {:>10}  {}{}\n", gib(m.device_bytes), gib(m.host_bytes()),
                        r.choice.estimate.time.total, price, r.changed.empty() ? "no savings" : r.changed,
                        r.choice.plan == chosen ? " (chosen)"
                        : m.fits()              ? ""
                                                : " (does not fit)");
  }
  return text;
}

std::string describe_nearest(const Plan& plan, const std::optional<Choice>& nearest) {
  if (!nearest)
    return fmt::format("no similar plan that fits was found in time; a smaller train.micro_batch than {} takes less",
                       plan.micro_batch);
  return "nearest plan that fits: " + changed_keys(plan, nearest->plan);
}

std::string does_not_fit(const RankMemory& m, const Plan& plan, const std::optional<Choice>& nearest) {
  return fmt::format("this run does not fit: {} on rank {}{}; {}", overrun(m), m.rank, spare_staging(m),
                     describe_nearest(plan, nearest));
}

std::string nothing_fits(const Search& s, int ranks, const ClusterSpec& cluster) {
  const std::string closest = s.closest ? fmt::format("; the closest, {}, is {}", describe(s.closest->plan),
                                                      overrun(s.closest->estimate.memory)) +
                                              spare_staging(s.closest->estimate.memory)
                                        : "";
  return fmt::format("no plan that parallel.auto leaves open fits {} rank{} of {}{}", ranks, ranks == 1 ? "" : "s",
                     cluster.name, closest);
}

OrderedJson plan_json(const Plan& p) {
  return {{"tp", p.tensor},
          {"pp", p.pipeline},
          {"sp", p.sequence},
          {"dp", p.data},
          {"zero", p.zero_stage},
          {"schedule", p.pipeline > 1 ? OrderedJson(name_of(p.schedule)) : OrderedJson(nullptr)},
          {"chunks", p.chunks},
          {"w_pass", p.w_pass},
          {"megatron_sp", p.megatron_sp},
          {"microbatch", p.micro_batch},
          {"recompute", name_of(p.recompute)},
          {"offload_activations", name_of(p.activations)},
          {"sequence_chunk_tokens", p.sequence_chunk_tokens},
          {"mlp_tile_tokens", p.mlp_tile_tokens},
          {"loss_chunk_tokens", p.loss_chunk_tokens},
          {"offload_optimizer", name_of(p.optimizer)},
          {"offload_weights", name_of(p.weights)},
          {"device_share", p.device_share},
          {"subgroup", p.subgroup},
          {"node_weights", p.node_weights},
          {"gradient_bits", p.gradient_bits},
          {"text", describe(p)},
          {"keys", written_keys(p)}};
}

OrderedJson memory_json(const Prediction& p) {
  OrderedJson j = OrderedJson::object();
  for (int c = 0; c < kMemoryClasses; ++c) j[name_of(static_cast<MemoryClass>(c))] = p.by_class[static_cast<size_t>(c)];
  j["staging"] = p.staging_bytes;
  OrderedJson& offloaded = j["offloaded"] = OrderedJson::object();
  for (int c = 0; c < kMemoryClasses; ++c)
    offloaded[name_of(static_cast<MemoryClass>(c))] = p.offloaded[static_cast<size_t>(c)];
  j["reserved"] = p.reserved_bytes;
  j["peak_bytes"] = p.required_bytes();
  return j;
}

OrderedJson estimate_json(const Estimate& e) {
  OrderedJson j = {{"plan", plan_json(plan_of(e.spec))},
                   {"ranks", e.ranks},
                   {"step_time_s", or_null(e.time.total)},
                   {"time",
                    {{"compute", e.time.compute},
                     {"exposed", e.time.exposed},
                     {"bubble", e.time.bubble},
                     {"update", e.time.update},
                     {"copies", e.time.copies}}},
                   {"model_tflops_per_device", or_null(e.model_tflops)},
                   {"mfu", or_null(e.mfu)},
                   {"tokens_per_s", or_null(e.tokens_per_s)},
                   {"between_nodes_bytes", e.between_nodes ? OrderedJson(*e.between_nodes) : OrderedJson(nullptr)},
                   {"steps", e.spec.train.steps},
                   {"run_s", or_null(static_cast<double>(e.spec.train.steps) * e.time.total)},
                   {"rank_hours", or_null(static_cast<double>(e.spec.train.steps) * e.time.total * e.ranks / 3600)},
                   {"memory", memory_json(e.memory.prediction)}};
  j["memory"]["peak_bytes"] = e.memory.bytes;
  j["memory"]["available_bytes"] = e.memory.available;
  j["memory"]["headroom_bytes"] = e.memory.headroom;
  j["memory"]["rank"] = e.memory.rank;
  const bool shares = e.memory.node_bytes > 0;
  j["memory"]["node_bytes"] = shares ? OrderedJson(e.memory.node_bytes) : OrderedJson(nullptr);
  j["memory"]["node_available_bytes"] = shares ? OrderedJson(e.memory.node_available) : OrderedJson(nullptr);
  const auto budget = [](int64_t most) {
    return most == RankMemory::kNoBudget ? OrderedJson(nullptr) : OrderedJson(most);
  };
  j["memory"]["device_bytes"] = e.memory.device_bytes;
  j["memory"]["device_budget_bytes"] = budget(e.memory.device_budget);
  j["memory"]["host_bytes"] = e.memory.host_bytes();
  j["memory"]["host_budget_bytes"] = budget(e.memory.host_budget);
  j["fits"] = e.memory.fits();
  return j;
}

OrderedJson alternatives_json(const Search& s) {
  OrderedJson list = OrderedJson::array();
  for (const Choice& c : s.alternatives)
    list.push_back({{"plan", plan_json(c.plan)},
                    {"step_time_s", c.estimate.time.total},
                    {"fits", c.estimate.memory.fits()},
                    {"why", c.why}});
  return list;
}

OrderedJson dial_json(const std::vector<DialRow>& rows, const Plan& chosen) {
  OrderedJson list = OrderedJson::array();
  for (const DialRow& r : rows) {
    const RankMemory& m = r.choice.estimate.memory;
    list.push_back({{"plan", plan_json(r.choice.plan)},
                    {"changed", r.changed},
                    {"device_bytes", m.device_bytes},
                    {"host_bytes", m.host_bytes()},
                    {"step_time_s", r.choice.estimate.time.total},
                    {"ms_per_gib", &r == &rows.front() ? OrderedJson(nullptr) : OrderedJson(r.ms_per_gib)},
                    {"fits", m.fits()},
                    {"chosen", r.choice.plan == chosen}});
  }
  return list;
}

}  // namespace fp
