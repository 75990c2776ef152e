// Reads memory facts and control-group limits from /proc and /sys.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "host/machine.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Returns the number at the start of a file; nullopt for a missing file, "max" or "-1".
std::optional<int64_t> number_in(const fs::path& file) {
  const std::optional<std::string> text = text_of(file);
  int64_t value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc{} || value < 0)
    return std::nullopt;
  return value;
}

// Returns the number after `key` in "key value" lines.
int64_t value_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::string name;
  for (int64_t value = 0; in >> name;) {
    if (in >> value) {
      if (name == key) return value;
    } else {
      in.clear();
    }
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

// Returns a control group's folder and all its parents inside `mount`.
std::vector<fs::path> folders_up(const fs::path& mount, const std::string& group) {
  std::vector<fs::path> folders;
  for (fs::path relative = fs::path(group).relative_path(); !relative.empty(); relative = relative.parent_path())
    folders.push_back(mount / relative);
  folders.push_back(mount);
  return folders;
}

void tighten_cpus(ControlGroupLimits& limits, double quota, double period) {
  if (quota <= 0 || period <= 0) return;
  const double cpus = quota / period;
  limits.cpus = limits.cpus == 0 ? cpus : std::min(limits.cpus, cpus);
}

// `reclaimable`: page cache that the kernel drops before an allocation fails.
void tighten_memory(ControlGroupLimits& limits, std::optional<int64_t> limit, int64_t used, int64_t reclaimable) {
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 writes a huge number for "none"
  if (!limit || *limit >= kNoLimit) return;
  const int64_t headroom = std::max<int64_t>(0, *limit - std::max<int64_t>(0, used - reclaimable));
  if (limits.memory_bytes == 0) limits.memory_headroom = headroom;
  limits.memory_bytes = limits.memory_bytes == 0 ? *limit : std::min(limits.memory_bytes, *limit);
  limits.memory_headroom = std::min(limits.memory_headroom, headroom);
}

void read_version_2(ControlGroupLimits& limits, const fs::path& folder) {
  if (const auto text = text_of(folder / "cpu.max")) {
    double quota = 0, period = 0;
    if (std::istringstream(*text) >> quota >> period) tighten_cpus(limits, quota, period);
  }
  tighten_memory(limits, number_in(folder / "memory.max"), number_in(folder / "memory.current").value_or(0),
                 value_of(folder / "memory.stat", "inactive_file"));
}

void read_version_1_cpu(ControlGroupLimits& limits, const fs::path& folder) {
  tighten_cpus(limits, static_cast<double>(number_in(folder / "cpu.cfs_quota_us").value_or(0)),
               static_cast<double>(number_in(folder / "cpu.cfs_period_us").value_or(0)));
}

void read_version_1_memory(ControlGroupLimits& limits, const fs::path& folder) {
  tighten_memory(limits, number_in(folder / "memory.limit_in_bytes"),
                 number_in(folder / "memory.usage_in_bytes").value_or(0),
                 value_of(folder / "memory.stat", "total_inactive_file"));
}

bool has_controller(const std::string& list, const std::string& name) {
  std::stringstream names(list);
  for (std::string one; std::getline(names, one, ',');)
    if (one == name) return true;
  return false;
}

// "always [madvise] never" -> "madvise"
std::string chosen_word(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos ? "" : text.substr(open + 1, close - open - 1);
}

// Returns SOFT of the line "Max data size SOFT HARD bytes"; nullopt: unlimited.
std::optional<int64_t> soft_limit(const fs::path& limits, const std::string& name) {
  std::ifstream in(limits);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const size_t at = line.find_first_not_of(' ', name.size());
    int64_t value = 0;
    if (at == std::string::npos || std::from_chars(&line[at], line.data() + line.size(), value).ec != std::errc{})
      break;
    return value;
  }
  return std::nullopt;
}

int64_t process_headroom(const fs::path& self) {
  int64_t headroom = -1;
  for (const auto& [limit, used] : {std::pair("Max data size", "VmData:"), {"Max address space", "VmSize:"}})
    if (const auto bytes = soft_limit(self / "limits", limit)) {
      const int64_t left = std::max<int64_t>(0, *bytes - value_of(self / "status", used) * 1024);
      headroom = headroom < 0 ? left : std::min(headroom, left);
    }
  return headroom;
}

}  // namespace

ControlGroupLimits control_group_limits(const MachineRoots& roots) {
  ControlGroupLimits limits;
  const fs::path mount = roots.sys / "fs/cgroup";
  std::ifstream in(roots.proc / "self/cgroup");
  // Each line is hierarchy:controllers:path; version 2 is hierarchy 0 without controllers.
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& base : {mount, mount / "unified"})
        for (const fs::path& folder : folders_up(base, group)) read_version_2(limits, folder);
    }
    if (has_controller(controllers, "cpu")) {
      for (const char* name : {"cpu", "cpu,cpuacct", "cpuacct,cpu"})
        for (const fs::path& folder : folders_up(mount / name, group)) read_version_1_cpu(limits, folder);
    }
    if (has_controller(controllers, "memory"))
      for (const fs::path& folder : folders_up(mount / "memory", group)) read_version_1_memory(limits, folder);
  }
  return limits;
}

MemoryFacts inspect_memory(const MachineRoots& roots) {
  MemoryFacts memory;
  const fs::path info = roots.proc / "meminfo";
  memory.total_bytes = value_of(info, "MemTotal:") * 1024;
  memory.available_bytes = value_of(info, "MemAvailable:") * 1024;
  memory.huge_page_bytes = value_of(info, "Hugepagesize:") * 1024;
  memory.huge_pages_free = value_of(info, "HugePages_Free:");
  const ControlGroupLimits limits = control_group_limits(roots);
  if (limits.memory_bytes > 0 && limits.memory_bytes < memory.total_bytes) {
    memory.limit_bytes = limits.memory_bytes;
    memory.available_bytes = std::min(memory.available_bytes, limits.memory_headroom);
  }
  memory.process_bytes = process_headroom(roots.proc / "self");
  if (const auto text = text_of(roots.sys / "kernel/mm/transparent_hugepage/enabled"))
    memory.transparent_huge_pages = chosen_word(*text);
  return memory;
}

}  // namespace fp
