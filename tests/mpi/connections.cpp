// Number of connections that host values open. Started by mpirun on ranks that only have TCP, it exits with 1 when a
// rank has connections to more ranks than it has neighbours in the tree of host values.
#include <fmt/format.h>

#include <bit>
#include <filesystem>
#include <numeric>
#include <string>

#include "comm/backends.h"

namespace {

int open_sockets() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry.path(), gone).string().starts_with("socket:") ? 1 : 0;
  }
  return count;
}

}  // namespace

int main() {
  const auto world = fp::make_mpi_world();
  std::vector<int> ranks(static_cast<size_t>(world->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const int before = open_sockets();
  const auto group = world->group("all", ranks);
  for (int turn = 0; turn < 20; ++turn) {
    double values[] = {1.0 * world->rank(), 2};
    group->all_reduce(values);
    group->all_reduce(values, fp::Reduction::max);
    group->gather(std::string(1000, 'x'));
    group->all_gather(std::to_string(world->rank()));
    for (int root = 0; root < world->size(); ++root) group->broadcast(std::string(100, 'y'), root);
  }
  const int opened = open_sockets() - before;
  const int most = 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(world->size() - 1)));
  double worst = opened;
  group->all_reduce(std::span(&worst, 1), fp::Reduction::max);
  if (world->rank() == 0)
    fmt::print(
        "{} ranks: host values opened {} connections on the rank that has most; at most {} are right, a full "
        "mesh has {}\n",
        world->size(), worst, most, world->size() - 1);
  return worst > most ? 1 : 0;
}
