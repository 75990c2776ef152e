// Where the ranks of a run are: host, device and cores of each; what to refuse there, and how many threads each gets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// What a rank says of itself. Every rank gathers the texts of all (Group::all_gather).
struct RankPlace {
  std::string host;
  long pid = 0;
  std::string device;      // for a person: "cpu", "NVIDIA H100 80GB HBM3"
  std::string device_id;   // one GPU of its host, such as its UUID; empty: nothing that only one rank should have
  std::vector<int> cores;  // this process may run on, ascending
  std::string missing{};   // why the device that was asked for is not there; empty: it is
  bool operator==(const RankPlace&) const = default;
};
std::string host_name();
RankPlace place_of_this_process(const std::string& device, const std::string& device_id);
std::string to_text(const RankPlace&);
RankPlace place_from_text(std::string_view);

// What speaks for a failed node and against a mistake: some ranks have no GPU, or must share one, while others have one
// each; nothing where the ranks are equipped alike or `sharing` is allowed.
struct NodeFailure {
  std::vector<int> ranks;
  std::string text;
};
std::optional<NodeFailure> missing_devices(const std::vector<RankPlace>& of_ranks, bool sharing);

// ConfigError where no rank has the device that was asked for, and naming the ranks, their host and GPU when two ranks
// have the same, unless `allowed` (parallel.allow_gpu_sharing).
void check_gpu_sharing(const std::vector<RankPlace>& of_ranks, bool allowed);

// Cores of this rank divided by the ranks of its host that may run on exactly these; at least 1. So unbound ranks share
// their machine, and ranks that are bound use what is theirs.
int threads_of(const std::vector<RankPlace>& of_ranks, int rank);

// One line a rank: host, device, cores, threads. Of more than 64 ranks, one for those of a host that are alike.
std::string placement_table(const std::vector<RankPlace>& of_ranks);

// "0-2,4,6-7" of ascending numbers.
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace fp
