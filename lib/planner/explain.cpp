// Explains why a plan is not the best.
#include <algorithm>

#include "base/error.h"
#include "base/human_text.h"
#include "config/open_keys.h"
#include "planner/search.h"

namespace fp {
namespace {

std::string_view slowest_part(const Choice& other, const StepTime& a, const StepTime& b, const Plan& best) {
  const std::pair<double, std::string_view> parts[] = {
      {a.compute - b.compute, other.plan.recompute != best.recompute && other.plan.recompute != Recompute::none
                                  ? "more recomputation"
                              : other.plan.tensor > best.tensor           ? "smaller products"
                              : other.plan.micro_batch < best.micro_batch ? "smaller products"
                                                                          : "more work on the slowest rank"},
      {a.exposed - b.exposed, "more exposed communication"},
      {a.bubble - b.bubble, "more bubble"},
      {a.update - b.update, "a longer update"},
      {a.copies - b.copies, "more exposed copies to and from the host"}};
  return std::max_element(std::begin(parts), std::end(parts),
                          [](const auto& x, const auto& y) { return x.first < y.first; })
      ->second;
}

}  // namespace

double memory_fraction(const RankMemory& m) {
  const auto share = [](int64_t bytes, int64_t available) {
    return available > 0 ? static_cast<double>(bytes) / static_cast<double>(available) : 0;
  };
  return std::max({share(m.bytes, m.available), share(m.node_bytes, m.node_available),
                   share(m.device_bytes, m.device_budget), share(m.host_bytes(), m.host_budget)});
}

std::string overrun(const RankMemory& m) {
  if (m.fits()) return {};
  const std::string amount = human_bytes(static_cast<double>(m.missing()));
  const auto over_budget = [&](std::string_view key, int64_t budget) {
    return fmt::format("over {} = {:.5g} by {}", key, static_cast<double>(budget) / (1 << 30), amount);
  };
  if (m.missing() == m.over_host_budget()) return over_budget("memory.host_gib", m.host_budget);
  const bool device = m.missing() == m.over_device_budget();
  const std::string_view largest = device ? largest_device_class(m.prediction) : largest_class(m.prediction);
  const bool host = !device && !m.prediction.on_host && m.bytes <= m.available;
  const std::string mostly =
      host              ? fmt::format(" of the node's host memory, for {}",
                         m.node_offloaded > m.node_staging ? "offloaded tensors" : "saves beside training")
      : largest.empty() ? ""
                        : fmt::format(" (mostly {})", largest);
  return (device ? over_budget("memory.device_gib", m.device_budget) : "over by " + amount) + mostly;
}

std::string spare_staging(const RankMemory& m) {
  const int64_t of_rank = m.prediction.on_host ? static_cast<int64_t>(m.prediction.staging_bytes) : 0;
  if (m.fits() || m.bytes - of_rank > m.available || m.node_bytes - m.node_staging > m.node_available ||
      m.over_device_budget() > 0 || m.node_offloaded > m.host_budget)
    return "";
  return fmt::format("; {}", kSpareStaging);
}

std::string written_micro_batch(const RunSpec& spec) {
  if (spec.train.micro_batch == 1 || is_open(spec, "micro_batch")) return {};
  return fmt::format("; train.micro_batch = {} is written: without it, the planner chooses it", spec.train.micro_batch);
}

std::string why_not(const Choice& other, const Choice& best, const ClusterSpec& cluster) {
  const double slower = other.estimate.time.total / best.estimate.time.total - 1;
  std::string text = overrun(other.estimate.memory);
  if (text.empty())
    text = slower <= 0 ? "about as fast"
                       : fmt::format("{:.1f} % slower: {}", 100 * slower,
                                     slowest_part(other, other.estimate.time, best.estimate.time, best.plan));
  if (other.plan.tensor > std::min<int64_t>(other.estimate.ranks, cluster.ranks_per_node))
    text += fmt::format("; tensor {} spans several nodes of {} ranks", other.plan.tensor, cluster.ranks_per_node);
  return text;
}

}  // namespace fp
