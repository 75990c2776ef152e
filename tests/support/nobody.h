// What is forbidden to others is not to root: tests of permissions run as somebody else.
#pragma once

#include <unistd.h>

#include <cstdlib>

namespace fp::testing {

// As long as it lives this process is not root, whoever started it. Folders that it needs must be open to all.
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

}  // namespace fp::testing
