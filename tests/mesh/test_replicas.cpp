// check_replicas() finds and names a bit that differs between two copies of the state.
#include <atomic>
#include <catch2/catch.hpp>

#include "exec/replicas.h"
#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

struct Arenas {
  explicit Arenas(Ops& ops)
      : device(std::make_unique<Arena>(ops.allocate(kBytes, false), kBytes)),
        host(std::make_unique<Arena>(ops.allocate_host(kBytes, false), kBytes, Residence::host)) {}
  static constexpr size_t kBytes = size_t{16} << 20;
  std::unique_ptr<Arena> device, host;
};

ModelOptions options_for(int zero, DType compute, bool offload) {
  ModelOptions options;
  options.compute = compute;
  options.zero_stage = zero;
  options.positions = 8;
  options.offload_optimizer = offload;
  options.subgroup_elements = 200;  // less than most parameters have
  return options;
}

// Returns the error of check_replicas() on 2 data ranks x `tp` tensor ranks after `flip` on one rank. Rank 3 is the
// second of both axes for tp = 2.
std::string verdict(int zero, const std::function<void(ParamStore&)>& flip, int rank = 3, int tp = 2,
                    DType compute = DType::f32, bool offload = false) {
  std::string what = "no difference";
  ModelSection m = shared_model("llama");
  if (tp > 2) m.ffn = 22;  // an uneven split, so that shards differ too
  try {
    run_thread_ranks(2 * tp, [&](World& world) {
      const auto ops = make_cpu_ops();
      const Arenas arenas(*ops);
      const Groups groups = make_groups(world, Mesh(1, 2, 1, tp, 2 * tp));
      Model model(m, options_for(zero, compute, offload), *ops, *arenas.device, groups, arenas.host.get());
      model.params().initialize(*ops, 5);
      Executor(model, {}).restore_weights(0);
      if (world.rank() == rank) flip(model.params());
      check_replicas(model, *ops);
    });
  } catch (const DeviceError& e) {
    what = e.what();
  }
  return what;
}

void flip_bit(const Tensor& t, int bit = 0) { *static_cast<uint32_t*>(t.data) ^= 1u << bit; }

// Returns the first element of a parameter's kept state, if this rank keeps it.
void flip_state(ParamStore& store, const std::string& name, int slot, int bit = 0) {
  const ParamId id = store.table().find(name);
  for (const ParamUnit& u : store.table().units())
    for (const ParamPart& part : store.table().parts(u, !store.sharded(slot)))
      if (part.id == id) return flip_bit(store.state(slot, {id, part.first, 1}), bit);
}

}  // namespace

// The same memory, which ops accept: on the CPU both are the host's.
static Tensor as_of_the_device(Tensor t) {
  t.residence = Residence::device;
  return t;
}

// Calls `use` on each of 2 data x 2 tensor ranks after an update that summed the state it wrote.
void after_update(int zero, DType compute, const std::function<void(ParamStore&, int rank)>& before,
                  const std::function<void(Model&, Ops&, const StateSums&)>& use, bool offload = false,
                  OptimizerKind kind = OptimizerKind::adamw, double device_share = 1) {
  run_thread_ranks(4, [&](World& world) {
    const auto ops = make_cpu_ops();
    const Arenas arenas(*ops);
    const Groups groups = make_groups(world, Mesh(1, 2, 1, 2, 4));
    ModelOptions options = options_for(zero, compute, offload);
    OptimizerSection optimizer;
    options.optimizer = optimizer.kind = kind;
    Model model(shared_model("llama"), options, *ops, *arenas.device, groups, arenas.host.get());
    model.params().initialize(*ops, 5);
    Executor executor(model, {.device_share = device_share});
    executor.restore_weights(0);
    for (const ParamUnit& u : model.table().units()) {
      const UpdateTensors t = model.params().update_tensors(model.params().kept_range(u));
      ops->copy({t.gradient, as_of_the_device(t.param)});
    }
    before(model.params(), world.rank());
    use(model, *ops, executor.update(optimizer, 1e-2, 1, 1.0, true));
  });
}

TEST_CASE("the sums of an update equal those of the state it wrote", "[mesh]") {
  struct Case {
    int zero;
    bool offload;
    double share = 1;
  };
  for (const auto& [zero, offload, share] :
       {Case{0, false}, Case{1, false}, Case{0, true}, Case{1, true}, Case{0, true, 0}, Case{1, true, 0.5}})
    for (const DType compute : {DType::f32, DType::bf16}) {
      CAPTURE(zero, offload, share, name_of(compute));
      std::atomic<int> equal = 0, other = 0;
      after_update(
          zero, compute, [](ParamStore&, int) {},
          [&](Model& model, Ops& ops, const StateSums& sums) {
            ParamStore& store = model.params();
            const auto memory = ops.allocate(2 * sizeof(int32_t), false);
            const Tensor now(memory.get(), DType::i32, {2});
            for (const ParamUnit& u : store.table().units())
              for (const ParamPart& part : store.kept(u)) {
                const auto same = [&](int slot, const Tensor& t) {
                  ops.bit_sums({now, as_of_the_device(t)});
                  return sums.find(part, slot) == StateSums::Sums{now.ptr<int32_t>()[0], now.ptr<int32_t>()[1]};
                };
                const int slots = store.table().slot_count();
                bool all = slots == 3;
                for (int slot = 0; slot < slots; ++slot) all = all && same(slot, store.state(slot, part));
                if (compute == DType::bf16) all = all && same(slots, store.kept_weights(part));
                ++(all ? equal : other);
              }
          },
          offload, OptimizerKind::adamw, share);
      CHECK(equal > 0);
      CHECK(other == 0);
    }
}

TEST_CASE("replicas that Muon has updated pass the check, with sums of what is no matrix", "[mesh]") {
  for (const auto& [zero, offload] : {std::pair(0, false), std::pair(1, false), std::pair(0, true), std::pair(1, true)})
    for (const DType compute : {DType::f32, DType::bf16}) {
      CAPTURE(zero, offload, name_of(compute));
      std::atomic<int> right = 0, wrong = 0;
      after_update(
          zero, compute, [](ParamStore&, int) {},
          [&](Model& model, Ops& ops, const StateSums& sums) {
            const ParamTable& table = model.table();
            for (const ParamUnit& u : table.units())
              for (const ParamPart& part : model.params().kept(u))
                for (const int slot : table.slots_of(part.id))
                  ++(sums.find(part, slot).has_value() == !table[part.id].matrix ? right : wrong);
            check_replicas(model, ops, sums);
          },
          offload, OptimizerKind::muon);
      CHECK(right > 0);
      CHECK(wrong == 0);
    }
}

TEST_CASE("a bit that flipped before an update is found from the update's sums", "[mesh]") {
  const std::string down = "model.layers.1.mlp.down_proj.weight";
  const bool offload = GENERATE(false, true);
  const auto run = [&](bool flips) {
    after_update(
        0, DType::bf16,
        [&](ParamStore& store, int rank) {
          if (flips && rank == 3) flip_state(store, down, 2, 30);
        },
        [](Model& model, Ops& ops, const StateSums& sums) { check_replicas(model, ops, sums); }, offload);
  };
  CHECK_NOTHROW(run(false));
  CHECK_THROWS_WITH(run(true), Catch::Contains(" of " + down + " on rank 3 is not what rank 1 holds"));
}

TEST_CASE("equal replicas pass the check", "[mesh]") {
  for (const int zero : {0, 1, 2, 3})
    for (const int tp : {2, 3, 4})
      CHECK(verdict(
                zero, [](ParamStore&) {}, 0, tp) == "no difference");
}

TEST_CASE("a flipped bit of the state is reported with parameter and ranks", "[mesh]") {
  using Catch::Contains;
  const std::string down = "model.layers.1.mlp.down_proj.weight";
  for (const int zero : {0, 1, 2})
    CHECK_THAT(verdict(zero, [&](ParamStore& s) { flip_state(s, down, kParamSlot); }),
               Contains("weights of " + down + " on rank 3 is not what rank 1 holds"));
  CHECK_THAT(verdict(0, [&](ParamStore& s) { flip_state(s, down, 2); }), Contains("exp_avg_sq of " + down));
  // Shards of moments have no copies in the data group, but those of replicated parameters have in the tensor group.
  CHECK(verdict(1, [&](ParamStore& s) { flip_state(s, down, 1); }) == "no difference");
  // A layer's first norm is in the first shard, which ranks 0 and 1 hold.
  const std::string norm = "model.layers.0.input_layernorm.weight";
  for (const int zero : {1, 3})
    CHECK_THAT(verdict(
                   zero, [&](ParamStore& s) { flip_state(s, norm, 1); }, 1),
               Contains("exp_avg of " + norm + " on rank 1 is not what rank 0 holds"));
  // 2 kv heads on 4 tensor ranks: ranks 0 and 1 share one, 2 and 3 the other.
  const std::string key = "model.layers.0.self_attn.k_proj.weight";
  CHECK_THAT(verdict(
                 0, [&](ParamStore& s) { flip_state(s, key, kParamSlot); }, 1, 4),
             Contains(key + " on rank "));
  // The rounded copies of bf16 weights.
  const auto flip_rounded = [&](ParamStore& s) { flip_bit(s.kept_weights({s.table().find(down), 0, 2})); };
  CHECK_THAT(verdict(1, flip_rounded, 3, 2, DType::bf16),
             Contains("rounded weights of " + down + " on rank 3 is not what rank 1 holds"));
}

TEST_CASE("a flipped bit of offloaded state is reported with parameter and ranks", "[mesh]") {
  using Catch::Contains;
  const std::string down = "model.layers.1.mlp.down_proj.weight";
  const auto of = [&](int zero, int slot, DType compute) {
    return verdict(
        zero, [&](ParamStore& s) { flip_state(s, down, slot); }, 3, 2, compute, true);
  };
  CHECK(verdict(
            0, [](ParamStore&) {}, 0, 2, DType::bf16, true) == "no difference");
  CHECK_THAT(of(0, kParamSlot, DType::bf16), Contains("weights of " + down + " on rank 3 is not what rank 1 holds"));
  CHECK_THAT(of(0, 2, DType::f32), Contains("exp_avg_sq of " + down + " on rank 3 is not what rank 1 holds"));
}
