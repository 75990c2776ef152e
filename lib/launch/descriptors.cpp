#include "launch/descriptors.h"

#include <sys/resource.h>

#include <limits>

namespace fp {

int64_t allow_all_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<int64_t>::max();
  const rlimit former = limit;
  limit.rlim_cur = limit.rlim_max;
  const rlim_t now = ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : former.rlim_cur;
  return now == RLIM_INFINITY ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(now);
}

}  // namespace fp
