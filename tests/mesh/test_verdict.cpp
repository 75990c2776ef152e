// All ranks agree whether a step may be applied, whichever of them has a non-finite loss.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int kDataRanks = 2, kTensorRanks = 2;

// Returns the loss of a step on each rank, from the `own` loss of each; ten units per data rank.
std::vector<double> step_losses(const std::function<double(int rank)>& own) {
  std::vector<double> losses(kDataRanks * kTensorRanks);
  std::vector<int64_t> units(losses.size());
  run_thread_ranks(kDataRanks * kTensorRanks, [&](World& world) {
    const auto ops = make_cpu_ops();
    Arena arena(ops->allocate(size_t{16} << 20, false), size_t{16} << 20);
    const Groups groups = make_groups(world, Mesh(1, kDataRanks, 1, kTensorRanks, kDataRanks * kTensorRanks));
    ModelOptions options;
    options.positions = 8;
    Model model(shared_model("llama"), options, *ops, arena, groups);
    LossSums sums;
    sums.loss = own(world.rank());
    sums.units = 10;
    Executor(model, {}).gradient_norm(sums);
    losses[static_cast<size_t>(world.rank())] = sums.loss;
    units[static_cast<size_t>(world.rank())] = sums.units;
  });
  CHECK(units == std::vector<int64_t>(units.size(), 10 * kDataRanks));
  return losses;
}

}  // namespace

TEST_CASE("the loss of a step counts each token once and is equal on all ranks", "[mesh]") {
  // Tensor ranks are adjacent and have the same loss.
  CHECK(step_losses([](int rank) { return rank < kTensorRanks ? 3.0 : 4.0; }) == std::vector<double>(4, 7.0));
}

TEST_CASE("a loss that is not finite on one rank is finite on none", "[mesh]") {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (int at = 0; at < kDataRanks * kTensorRanks; ++at)
      for (const double loss : step_losses([&](int rank) { return rank == at ? bad : 3.0; }))
        CHECK_FALSE(std::isfinite(loss));
}
