// The placement of the ranks of a run: host, device and cores of each; which placements are refused, and how many
// threads each rank gets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// The place of one rank. Every rank gathers to_text() of all ranks (Group::all_gather).
struct RankPlace {
  std::string host;
  long pid = 0;
  std::string device;  // human-readable: "cpu", "NVIDIA H100 80GB HBM3"
  // Identifies a GPU of its host, such as its UUID; empty: not a device that only one rank should use.
  std::string device_id;
  std::vector<int> cores;  // that this process may run on, in ascending order
  std::string missing{};   // why the requested device is missing; empty: it is present
  int core_quota = 0;      // processor time that the control group of this host's ranks grants, in cores; 0: unlimited
  bool operator==(const RankPlace&) const = default;
};
std::string host_name();
RankPlace place_of_this_process(const std::string& device, const std::string& device_id);
std::string to_text(const RankPlace&);
RankPlace place_from_text(std::string_view);

// Evidence of a failed node rather than a mistake in the run spec: some ranks have no GPU, or must share one, while
// others have one each.
struct NodeFailure {
  std::vector<int> ranks;
  std::string text;
};
// Returns nullopt if the ranks are equipped alike; with `sharing`, ranks that share a GPU are no failure.
std::optional<NodeFailure> missing_devices(const std::vector<RankPlace>& of_ranks, bool sharing);

// Throws ConfigError if a rank lacks the requested device; and, naming the ranks, their host and GPU, if two ranks have
// the same GPU, unless `allowed` (parallel.allow_gpu_sharing).
void check_gpu_sharing(const std::vector<RankPlace>& of_ranks, bool allowed);

// Returns the number of this rank's cores divided by the number of ranks of its host that may run on exactly these
// cores; at least 1. So unbound ranks share their machine, and bound ranks use their own cores. Ranks of a host that
// have the same quota are taken to share it: none gets more than the quota divided by their number.
int threads_of(const std::vector<RankPlace>& of_ranks, int rank);

// Formats a table with one line per rank: host, device, cores, threads. With more than 64 ranks, the ranks of a host
// that are alike share one line.
std::string placement_table(const std::vector<RankPlace>& of_ranks);

// Formats ascending numbers as ranges: "0-2,4,6-7".
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace fp
