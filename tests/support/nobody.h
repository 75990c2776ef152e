// Drops root privileges for tests of file permissions, which do not apply to root.
#pragma once

#include <unistd.h>

#include <cstdlib>

namespace fp::test {

// Runs a root process as user nobody until destroyed; does nothing for other users. Folders that it needs must be
// accessible to all.
class Nobody {
 public:
  Nobody() : root_(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~Nobody() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

 private:
  bool root_;
};

}  // namespace fp::test
