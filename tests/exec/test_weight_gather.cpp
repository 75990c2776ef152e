// WeightGather: whole weights out of the ranks' shards, for as long as somebody uses them.
#include <catch2/catch.hpp>

#include "comm/backends.h"
#include "exec/weight_gather.h"
#include "model/host_view.h"
#include "model/model.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

namespace fp::test {
namespace {

constexpr int kGatherRanks = 3;

constexpr size_t kBytes = size_t{16} << 20;

struct GatherRank {
  std::unique_ptr<Ops> ops;
  Arena arena{ops->allocate(kBytes, false), kBytes};
  Arena host_arena{ops->allocate_host(kBytes, false), kBytes, Residence::host};
  Groups groups;
  Model model;
  WeightGather weights;

  // `from_host`: the weights are in host memory, and copies are slow.
  GatherRank(World& world, int zero, bool from_host)
      : ops(make_cpu_ops({.bytes_per_s = {from_host ? 1e8 : 0, from_host ? 1e8 : 0}})),
        groups(make_groups(world, Mesh(1, kGatherRanks, 1, 1, kGatherRanks))),
        model(tiny_model("llama"), options(zero, from_host), *ops, arena, groups, &host_arena),
        weights(model.env(), *model.groups().data) {
    model.params().initialize(*ops, 5);
  }
  static ModelOptions options(int zero, bool from_host) {
    ModelOptions o;
    o.compute = DType::f32;
    o.zero_stage = zero;
    o.offload_optimizer = o.offload_weights = from_host;
    o.positions = 8;
    return o;
  }
  int units() const { return static_cast<int>(model.table().units().size()); }
  // True if every weight of the unit is the initial value of its parameter.
  bool unit_is_right(int unit) {
    const ParamUnit& u = model.table().units()[static_cast<size_t>(unit)];
    for (ParamId id = u.first; id <= u.last; ++id) {
      const Tensor w = model.params().weight(id);
      std::vector<float> expected(static_cast<size_t>(model.table()[id].shape.elements()));
      initial_values(model.table()[id], 5, 0, expected);
      std::vector<float> values(static_cast<size_t>(w.elements()));
      expected.resize(values.size());  // padding of the vocabulary is 0
      ops->copy_out({values.data(), w});
      if (values != expected) return false;
    }
    return true;
  }
};

// Runs `check` on every rank and returns what it found wrong on each.
std::vector<std::string> on_ranks(int zero, const std::function<std::string(GatherRank&)>& check,
                                  bool from_host = false) {
  std::vector<std::string> wrong(kGatherRanks);
  run_thread_ranks(kGatherRanks, [&](World& world) {
    GatherRank r(world, zero, from_host);
    wrong[static_cast<size_t>(world.rank())] = check(r);
  });
  return wrong;
}

const std::vector<std::string> kNothing(kGatherRanks, "");

TEST_CASE("WeightGather returns whole weights under ZeRO 3 and frees them after the last release", "[exec]") {
  CHECK(on_ranks(3, [](GatherRank& r) -> std::string {
          const size_t before = r.arena.in_use();
          for (int u = 0; u < r.units(); ++u) {
            r.weights.acquire(u);
            r.weights.acquire(u);
            if (!r.unit_is_right(u)) return fmt::format("unit {} is wrong", u);
            r.weights.release(u);
            if (!r.unit_is_right(u)) return fmt::format("unit {} is gone before its last release", u);
            r.weights.release(u);
            if (r.arena.in_use() != before) return fmt::format("unit {} is still in memory", u);
          }
          return "";
        }) == kNothing);
}

TEST_CASE("WeightGather prefetches the next unit and one unit at most", "[exec]") {
  CHECK(on_ranks(3, [](GatherRank& r) -> std::string {
          const size_t before = r.arena.in_use();
          for (int u = 0; u < r.units(); ++u) {
            const int next = u + 1 < r.units() ? u + 1 : -1;
            r.weights.acquire(u, next);
            size_t bytes = 0;
            for (const int unit : {u, next})
              if (unit >= 0)
                bytes +=
                    static_cast<size_t>(r.model.table().units()[static_cast<size_t>(unit)].elements) * sizeof(float);
            if (r.arena.in_use() < before + bytes || r.arena.in_use() >= before + bytes + 2 * Arena::kAlignment)
              return fmt::format("unit {}: {} bytes are in use, not {}", u, r.arena.in_use() - before, bytes);
            if (!r.unit_is_right(u)) return fmt::format("unit {} is wrong", u);
            r.weights.release(u);
          }
          return r.arena.in_use() == before ? "" : "a unit is still in memory";
        }) == kNothing);
}

TEST_CASE("WeightGather brings weights from host memory, of which each rank may keep a shard", "[exec]") {
  const int zero = GENERATE(0, 1, 3);
  CAPTURE(zero);
  CHECK(on_ranks(
            zero,
            [zero](GatherRank& r) -> std::string {
              const size_t before = r.arena.in_use();
              const std::vector<ParamUnit>& units = r.model.table().units();
              for (int u = 0; u < r.units(); ++u) {
                r.weights.acquire(u, u + 1 < r.units() ? u + 1 : -1);
                if (!r.unit_is_right(u)) return fmt::format("unit {} is wrong", u);
                if (u + 2 < r.units()) r.weights.hold(u + 2);
                r.weights.release(u);
                if (u >= 2) r.weights.release(u);
              }
              if (r.arena.in_use() != before) return "a unit is still in memory";
              int64_t copied = 0;
              for (const ParamUnit& u : units) copied += u.elements * 4 / (zero > 0 ? kGatherRanks : 1);
              const CopyTotal& total = r.ops->copies().total(CopyLane::to_device);
              if (total.bytes != copied) return fmt::format("{} bytes were copied, not {}", total.bytes, copied);
              return "";
            },
            true) == kNothing);
}

TEST_CASE("WeightGather frees a unit of host memory that was held and never used", "[exec]") {
  CHECK(on_ranks(
            3,
            [](GatherRank& r) -> std::string {
              const size_t before = r.arena.in_use();
              r.weights.hold(0);
              r.weights.release(0);
              if (r.arena.in_use() != before) return "the unit is still in memory";
              r.weights.hold(1);  // freed with the WeightGather
              return "";
            },
            true) == kNothing);
}

TEST_CASE("WeightGather frees a unit that was held and never used", "[exec]") {
  CHECK(on_ranks(3, [](GatherRank& r) -> std::string {
          const size_t before = r.arena.in_use();
          r.weights.hold(0);
          if (r.arena.in_use() == before) return "nothing was gathered";
          r.weights.release(0);
          return r.arena.in_use() == before ? "" : "the unit is still in memory";
        }) == kNothing);
}

TEST_CASE("WeightGather completes the weights of all ranks after an update under ZeRO 1 and 2", "[exec]") {
  const int zero = GENERATE(1, 2);
  CHECK(on_ranks(zero, [](GatherRank& r) -> std::string {
          // Each rank keeps its own shard only; the rest is overwritten.
          for (const ParamUnit& u : r.model.table().units()) {
            const Tensor whole = r.model.params().unit_weights(u);
            std::vector<float> values(static_cast<size_t>(whole.elements()));
            r.ops->copy_out({values.data(), whole});
            const IndexRange own = r.model.table().shard_of(u, r.model.table().shard());
            for (int64_t i = 0; i < u.elements; ++i)
              if (i < own.first - u.offset || i >= own.first - u.offset + own.count)
                values[static_cast<size_t>(i)] = 1e9F;
            r.ops->copy_in({whole, values.data()});
          }
          r.weights.all_gather();
          for (int u = 0; u < r.units(); ++u)
            if (!r.unit_is_right(u)) return fmt::format("unit {} is wrong", u);
          return "";
        }) == kNothing);
}

TEST_CASE("WeightGather refuses a release without an acquire", "[exec]") {
  CHECK(on_ranks(3, [](GatherRank& r) -> std::string {
          try {
            r.weights.release(0);
          } catch (const InternalError&) {
            return "";
          }
          return "it was accepted";
        }) == kNothing);
}

}  // namespace
}  // namespace fp::test
