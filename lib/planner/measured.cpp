#include "planner/measured.h"

#include <algorithm>

#include "base/error.h"

namespace fp {

ClusterSpec measured_cluster(const NodeFacts& facts, const DeviceRates& rates, const std::vector<LinkSample>& links,
                             const DiskRates& disk) {
  ClusterSpec c;
  c.name = facts.name;
  c.source = facts.source;
  c.device = facts.device;
  c.nodes = facts.nodes;
  c.ranks_per_node = facts.ranks_per_node;
  c.memory_gib = facts.memory_gib;
  c.reserved_gib = facts.reserved_gib;
  c.host_memory_gib = facts.host_memory_gib;
  c.overlaps = facts.overlaps;
  c.copy_gb_per_s = rates.copy_gb_per_s;
  c.host_gb_per_s = rates.host_gb_per_s;
  c.host_update_gb_per_s = rates.host_update_gb_per_s;
  c.disk_gb_per_s = disk.write_bytes_per_s * 1e-9;
  c.profiles = {rates.profile};
  raise_peaks(c.profiles.front());
  c.profiles.front().links = fit_links(links);
  return c;
}

void raise_peaks(NodeProfile& p) {
  for (const ProductRates& r : p.products) {
    double& peak = r.compute == "bf16" ? p.peak_tflops_bf16 : p.peak_tflops_fp32;
    peak = std::max(peak, r.tflops);
  }
}

void require_same_machine(const ClusterSpec& before, const std::string& name, ClusterDevice device) {
  if (before.name != name || before.device != device)
    throw ConfigError(
        fmt::format("the existing cluster description is of {} ({}), this machine is {} ({}); write to another file",
                    before.name, before.device, name, device));
}

ClusterSpec with_earlier_profiles(ClusterSpec now, const ClusterSpec& before) {
  require_same_machine(before, now.name, now.device);
  for (const NodeProfile& p : before.profiles)
    if (std::ranges::none_of(now.profiles, [&](const NodeProfile& mine) { return mine.ranks == p.ranks; }))
      now.profiles.push_back(p);
  std::ranges::sort(now.profiles, {}, &NodeProfile::ranks);
  now.nodes = std::max(now.nodes, before.nodes);
  now.ranks_per_node = std::max(now.ranks_per_node, before.ranks_per_node);
  return now;
}

}  // namespace fp
