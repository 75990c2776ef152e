#include "launch/process.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace fp {

bool process_runs(long pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  // A file that cannot be opened does not mean that the process is gone: descriptors may have run out.
  if (!std::getline(in, stat)) return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
  const size_t name_end = stat.rfind(") ");
  const char state = name_end == std::string::npos || name_end + 2 >= stat.size() ? 'X' : stat[name_end + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace fp
