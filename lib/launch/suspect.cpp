#include "launch/suspect.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/log.h"
#include "io/filesystem.h"
#include "io/new_file.h"
#include "launch/placement.h"

namespace fp {

std::string node_name(const Variables& variable) {
  const std::optional<std::string> name = variable("SLURMD_NODENAME");
  return name && !name->empty() ? *name : host_name();
}

std::string suspect_node(std::span<const RankState> all, const std::vector<int>& ranks) {
  std::string node;
  bool others = false;
  for (const RankState& r : all) {
    if (std::find(ranks.begin(), ranks.end(), r.rank) == ranks.end()) continue;
    if (!node.empty() && r.node != node) return {};
    node = r.node;
  }
  for (const RankState& r : all) others |= r.node != node;
  return others ? node : std::string();
}

void note_suspect(const std::filesystem::path& run_directory, const std::optional<SlurmJob>& job,
                  const std::string& node) {
  if (!job || node.empty()) return;
  const std::filesystem::path file = run_directory / kSuspectFile;
  const std::string line = fmt::format("{} {} {}\n", job->id, job->restarts, node);
  try {
    const FileDescriptor out = open_to_append(file);
    if (::write(out.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      fail_file(file, "write", errno);
  } catch (const DataError& e) {
    log::warning("cannot record that node {} is suspect: {}", node, e.what());
  }
}

}  // namespace fp
