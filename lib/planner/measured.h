// Builds a cluster description from measurements.
#pragma once

#include <string>
#include <vector>

#include "bench/disk_benchmark.h"
#include "planner/measure.h"

namespace fp {

// Properties of a node that the system reports.
struct NodeFacts {
  std::string name, source;  // these and the next as in ClusterSpec
  ClusterDevice device = ClusterDevice::cuda;
  int64_t nodes = 1, ranks_per_node = 1;
  double memory_gib = 0, reserved_gib = 0, host_memory_gib = 0;
  bool overlaps = false;
};

// Returns a description with one profile, that of the ranks that measured.
ClusterSpec measured_cluster(const NodeFacts&, const DeviceRates&, const std::vector<LinkSample>&, const DiskRates&);

// Raises the peaks to the rate of the fastest product: while others used the machine, the peak may have been measured
// too low, and MFU would exceed 100 %.
void raise_peaks(NodeProfile&);

// Returns `now` with the profiles of `before` for other numbers of ranks. Throws ConfigError if the two describe
// different machines.
ClusterSpec with_earlier_profiles(ClusterSpec now, const ClusterSpec& before);
// Throws ConfigError if `before` describes another machine.
void require_same_machine(const ClusterSpec& before, const std::string& name, ClusterDevice device);

}  // namespace fp
