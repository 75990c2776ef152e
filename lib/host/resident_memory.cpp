#include "host/resident_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace fp {

MemoryUse memory_use() {
  MemoryUse use;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) use.resident_bytes = std::atoll(line.c_str() + 6) * 1024;
    if (line.starts_with("RssFile:")) use.file_bytes = std::atoll(line.c_str() + 8) * 1024;
    if (line.starts_with("VmHWM:")) use.peak_bytes = std::atoll(line.c_str() + 6) * 1024;
  }
  if (use.peak_bytes == 0) {  // missing in some sandboxes
    struct rusage usage {};
    if (::getrusage(RUSAGE_SELF, &usage) == 0) use.peak_bytes = usage.ru_maxrss * 1024;
  }
  // The kernel updates its two counters at different moments.
  use.peak_bytes = std::max(use.peak_bytes, use.resident_bytes);
  return use;
}

bool reset_peak_memory() {
  const int fd = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, "5", 1) == 1;
  ::close(fd);
  return done;
}

}  // namespace fp
