// A run in which rank 1 fails while the others wait for it.
#include <cstdio>
#include <vector>

#include "comm/backends.h"

int main() try {
  const auto world = fp::make_mpi_world();
  const auto group = world->group("all", {0, 1, 2, 3});
  std::vector<float> x(100000);
  fp::Request sum = group->start_all_reduce({x.data(), fp::DType::f32, {100000}});
  if (world->rank() == 1) throw fp::DataError("bad shard");
  sum.wait();
  return 0;
} catch (const fp::UserError& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return static_cast<int>(e.code());
}
