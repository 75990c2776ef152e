// From what was measured to a cluster description.
#pragma once

#include <string>
#include <vector>

#include "planner/measure.h"
#include "train/disk_benchmark.h"

namespace fp {

// What the system says of a node.
struct NodeFacts {
  std::string name, source, device;  // as in ClusterSpec
  int64_t nodes = 1, ranks_per_node = 1;
  double memory_gib = 0, reserved_gib = 0, host_memory_gib = 0;
  bool overlaps = false;
};

// With one profile: that of the ranks that measured.
ClusterSpec measured_cluster(const NodeFacts&, const DeviceRates&, const std::vector<LinkSample>&, const DiskRates&);

// What was measured before and now: the new profile in the place of that for as many ranks, if there is one, all else
// as it is now. ConfigError when they are of different machines.
ClusterSpec with_earlier_profiles(ClusterSpec now, const ClusterSpec& before);
void require_same_machine(const ClusterSpec& before, const std::string& name, const std::string& device);

}  // namespace fp
