// Preloaded into fptrain: the rank in FP_STOP_RANK stops at the end of MPI_Finalize, or at its beginning if
// FP_STOP_AT is "begin".
#include <dlfcn.h>
#include <signal.h>

#include <cstdlib>
#include <string_view>

namespace {
std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
}  // namespace

extern "C" int MPI_Finalize() {
  const bool stops = variable("OMPI_COMM_WORLD_RANK") == variable("FP_STOP_RANK");
  const bool at_begin = variable("FP_STOP_AT") == "begin";
  if (stops && at_begin) ::raise(SIGSTOP);
  const int result = reinterpret_cast<int (*)()>(::dlsym(RTLD_NEXT, "MPI_Finalize"))();
  if (stops && !at_begin) ::raise(SIGSTOP);
  return result;
}
