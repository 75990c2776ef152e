// GradientSync: the sum of every rank's gradients over all micro-batches, whole or as shards, under each ZeRO stage.
#include <catch2/catch.hpp>

#include "comm/backends.h"
#include "exec/gradient_sync.h"
#include "model/host_view.h"
#include "model/model.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

namespace fp::test {
namespace {

constexpr int kRanks = 3, kMicroBatches = 2;

// Small integers, which bf16 and sums of them in bf16 represent exactly.
float gradient(int rank, int micro_batch, ParamId id, int64_t i) {
  return static_cast<float>((rank + 1) * (micro_batch + 1) * ((i + id) % 7 - 3));
}

float expected_sum(ParamId id, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < kRanks; ++rank)
    for (int m = 0; m < kMicroBatches; ++m) sum += gradient(rank, m, id, i);
  return sum;
}

// Writes the gradient of a parameter as the backward pass does: sets it, or adds to it.
void write_gradient(ParamStore& store, Ops& ops, Arena& arena, ParamId id, int rank, int micro_batch) {
  const Tensor to = store.grad(id);
  std::vector<float> values(static_cast<size_t>(to.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = gradient(rank, micro_batch, id, static_cast<int64_t>(i));
  const ArenaTensor from = arena.alloc(DType::f32, to.shape);
  ops.copy_in({from, values.data()});
  if (store.grad_write(id) == Write::set)
    ops.copy({to, from});
  else
    ops.add({to, to, from});
}

// The gradient of a unit that this rank keeps, and the flat element at which it begins.
std::pair<std::vector<float>, int64_t> kept_gradient(const ParamStore& store, Ops& ops, const Model& model,
                                                     const ParamUnit& u) {
  const IndexRange own = store.table().shard_of(u, store.table().shard());
  const Tensor kept = store.state_sharded() ? store.shard_of_gradients(u) : store.unit_gradients(u);
  std::vector<float> values(static_cast<size_t>(kept.elements()));
  ops.copy_out({values.data(), model.env().widened(kept)});
  return {values, store.state_sharded() ? own.first : u.offset};
}

void check_unit(const ParamStore& store, Ops& ops, const Model& model, const ParamUnit& u, std::string& wrong) {
  const auto [values, begin] = kept_gradient(store, ops, model, u);
  std::vector<float> expected(static_cast<size_t>(u.elements), 0);  // gaps between parameters stay 0
  for (ParamId id = u.first; id <= u.last; ++id) {
    const Param& p = store.table()[id];
    for (int64_t i = 0; i < p.local_elements(); ++i)
      expected[static_cast<size_t>(p.offset - u.offset + i)] = expected_sum(id, i);
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != expected[static_cast<size_t>(begin - u.offset) + i])
      wrong = fmt::format("rank {}: element {} of the unit of {} is {}, not {}", store.table().shard(),
                          static_cast<int64_t>(i) + begin - u.offset, store.table()[u.first].name, values[i],
                          expected[static_cast<size_t>(begin - u.offset) + i]);
}

void run_step(Model& model, Ops& ops, Arena& arena, GradientSync& sync, int rank) {
  const std::vector<ParamUnit>& units = model.table().units();
  sync.begin_step();
  for (int m = 0; m < kMicroBatches; ++m)
    for (int u = static_cast<int>(units.size()) - 1; u >= 0; --u) {
      const ParamUnit& unit = units[static_cast<size_t>(u)];
      sync.open(u);
      for (ParamId id = unit.first; id <= unit.last; ++id) write_gradient(model.params(), ops, arena, id, rank, m);
      sync.reduce(u, m + 1 == kMicroBatches);
    }
  sync.end_step();
}

TEST_CASE("GradientSync sums gradients over ranks and micro-batches under every ZeRO stage", "[exec]") {
  const int zero = GENERATE(0, 1, 2, 3);
  const DType type = GENERATE(DType::f32, DType::bf16);
  CAPTURE(zero, name_of(type));
  std::vector<std::string> wrong(kRanks);
  run_thread_ranks(kRanks, [&](World& world) {
    const auto ops = make_cpu_ops();
    Arena arena(ops->allocate(size_t{16} << 20, false), size_t{16} << 20);
    const Groups groups = make_groups(world, Mesh(1, kRanks, 1, 1, kRanks));
    ModelOptions options;
    options.compute = type;
    options.gradients = type;
    options.zero_stage = zero;
    options.positions = 8;
    Model model(tiny_model("llama"), options, *ops, arena, groups);
    GradientSync sync(model.env(), model.groups());
    const size_t before = arena.in_use();
    for (int step = 0; step < 2; ++step) {  // nothing of a step is left in the next
      run_step(model, *ops, arena, sync, world.rank());
      for (const ParamUnit& u : model.table().units())
        check_unit(model.params(), *ops, model, u, wrong[static_cast<size_t>(world.rank())]);
    }
    if (arena.in_use() != before) wrong[static_cast<size_t>(world.rank())] += " memory of the step is still in use";
  });
  for (const std::string& w : wrong) CHECK(w == "");
}

TEST_CASE("GradientSync clears the gradient of a parameter that no micro-batch used", "[exec]") {
  const int zero = GENERATE(0, 3);
  CAPTURE(zero);
  std::vector<float> most(kRanks, -1);
  run_thread_ranks(kRanks, [&](World& world) {
    const auto ops = make_cpu_ops();
    Arena arena(ops->allocate(size_t{16} << 20, false), size_t{16} << 20);
    const Groups groups = make_groups(world, Mesh(1, kRanks, 1, 1, kRanks));
    ModelOptions options;
    options.compute = DType::f32;
    options.zero_stage = zero;
    options.positions = 8;
    Model model(tiny_model("llama"), options, *ops, arena, groups);
    GradientSync sync(model.env(), model.groups());
    run_step(model, *ops, arena, sync, world.rank());
    sync.begin_step();
    for (int u = 0; u < static_cast<int>(model.table().units().size()); ++u) sync.reduce(u, true);
    sync.end_step();
    float& largest = most[static_cast<size_t>(world.rank())];
    for (const ParamUnit& u : model.table().units())
      for (const float x : kept_gradient(model.params(), *ops, model, u).first)
        largest = std::max(largest, std::abs(x));
  });
  CHECK(most == std::vector<float>(kRanks, 0));
}

}  // namespace
}  // namespace fp::test
