#include "base/random_digits.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <random>

namespace fp {

std::string random_digits() {
  std::array<uint64_t, 2> bits{};
  ssize_t n = 0;
  do {
    n = ::getrandom(bits.data(), sizeof bits, 0);
  } while (n < 0 && errno == EINTR);
  if (static_cast<size_t>(n) != sizeof bits) {  // a kernel before 3.17
    std::random_device device("/dev/urandom");
    for (uint64_t& b : bits) b = uint64_t{device()} << 32 | device();
  }
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

}  // namespace fp
