#include "planner/report.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fp {
namespace {

using OrderedJson = nlohmann::ordered_json;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string row(const std::string& name, double value, const std::string& unit) {
  return fmt::format("  {:<26}{:>12.3f} {}\n", name, value, unit);
}

OrderedJson or_null(double value) { return value > 0 ? OrderedJson(value) : OrderedJson(nullptr); }

}  // namespace

std::string describe_memory(const RankMemory& m, const ClusterSpec& cluster) {
  std::string text = fmt::format("memory of rank {}, which needs most, GiB\n", m.rank);
  for (int c = 0; c < kMemoryClasses; ++c)
    if (const size_t bytes = m.prediction.by_class[static_cast<size_t>(c)]; bytes > 0)
      text += row(name_of(static_cast<MemoryClass>(c)), gib(static_cast<int64_t>(bytes)), "");
  if (m.prediction.staging_bytes > 0)
    text += row("staging of saves", gib(static_cast<int64_t>(m.prediction.staging_bytes)),
                m.prediction.on_host ? "" : "of host memory");
  if (m.prediction.reserved_bytes > 0)
    text += row("kept for libraries", gib(static_cast<int64_t>(m.prediction.reserved_bytes)), "");
  text += row("all it needs", gib(m.bytes), fmt::format("of {:.2f} on {}", gib(m.available), cluster.name));
  if (m.node_bytes > 0)
    text += row("all ranks of its node", gib(m.node_bytes), fmt::format("of {:.2f}", gib(m.node_available)));
  return text + (m.fits() ? "fits\n" : overrun(m) + fmt::format(" on rank {}\n", m.rank));
}

std::string describe_time(const Estimate& e, const ClusterSpec& cluster) {
  const StepTime& t = e.time;
  std::string text = fmt::format("a step on {}, seconds\n", cluster.name);
  text += row("compute", t.compute, "") + row("exposed communication", t.exposed, "");
  text += row("bubble", t.bubble, "") + row("update", t.update, "") + row("all", t.total, "");
  text += row("tokens a second", e.tokens_per_s, "");
  return text + row("model TFLOP/s a rank", e.model_tflops, e.mfu > 0 ? fmt::format("MFU {:.1f} %", 100 * e.mfu) : "");
}

std::string describe_search(const Search& s) {
  if (!s.best) return {};
  const auto line = [](const Choice& c, const std::string& why) {
    return fmt::format("  {:>10.4f} s {:>8.2f} GiB  {}{}{}\n", c.estimate.time.total, gib(c.estimate.memory.bytes),
                       describe(c.plan), c.exact ? "" : " (about)",
                       why.empty() ? "" : "\n" + std::string(28, ' ') + why);
  };
  std::string text =
      fmt::format("chosen of {} arrangements; {} plans estimated, {} of them exactly{}\n", s.leads, s.quick_estimates,
                  s.estimates, s.complete ? "" : "; the time ran out before all were");
  text += line(*s.best, "chosen: " + written_keys(s.best->plan));
  for (const Choice& c : s.alternatives) text += line(c, c.why);
  for (const std::string& remark : s.remarks) text += remark + "\n";
  return text;
}

std::string describe_nearest(const Plan& plan, const std::optional<Choice>& nearest) {
  if (!nearest) return "no similar plan that fits was found in time";
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
          {"schedule", p.pipeline > 1 ? OrderedJson(p.schedule) : OrderedJson(nullptr)},
          {"chunks", p.chunks},
          {"w_pass", p.w_pass},
          {"megatron_sp", p.megatron_sp},
          {"microbatch", p.micro_batch},
          {"recompute", name_of(p.recompute)},
          {"loss_chunk_tokens", p.loss_chunk_tokens},
          {"text", describe(p)},
          {"keys", written_keys(p)}};
}

OrderedJson memory_json(const Prediction& p) {
  OrderedJson j = OrderedJson::object();
  for (int c = 0; c < kMemoryClasses; ++c) j[name_of(static_cast<MemoryClass>(c))] = p.by_class[static_cast<size_t>(c)];
  j["staging"] = p.staging_bytes;
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
                     {"update", e.time.update}}},
                   {"model_tflops_per_device", or_null(e.model_tflops)},
                   {"mfu", or_null(e.mfu)},
                   {"tokens_per_s", or_null(e.tokens_per_s)},
                   {"memory", memory_json(e.memory.prediction)}};
  j["memory"]["peak_bytes"] = e.memory.bytes;
  j["memory"]["available_bytes"] = e.memory.available;
  j["memory"]["rank"] = e.memory.rank;
  const bool shares = e.memory.node_bytes > 0;
  j["memory"]["node_bytes"] = shares ? OrderedJson(e.memory.node_bytes) : OrderedJson(nullptr);
  j["memory"]["node_available_bytes"] = shares ? OrderedJson(e.memory.node_available) : OrderedJson(nullptr);
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

}  // namespace fp
