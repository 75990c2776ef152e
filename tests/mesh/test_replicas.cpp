// A bit that differs between two copies of the state is found, and named.
#include <catch2/catch.hpp>

#include "exec/replicas.h"
#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::testing;

namespace {

// On 2 data ranks x `tp` tensor ranks: what check_replicas() says after `flip` on one rank. 3 is the second of
// both.
std::string verdict(int zero, const std::function<void(ParamStore&)>& flip, int rank = 3, int tp = 2,
                    DType compute = DType::f32) {
  std::string what = "no difference";
  ModelSection m = shared_model("llama");
  if (tp > 2) m.ffn = 22;  // shares that differ, and with them the shards
  try {
    run_thread_ranks(2 * tp, [&](World& world) {
      const auto ops = make_cpu_ops();
      Arena arena(ops->allocate(size_t{16} << 20, false), size_t{16} << 20);
      const Groups groups = make_groups(world, Mesh(1, 2, 1, tp, 2 * tp));
      ModelOptions options;
      options.compute = compute;
      options.zero_stage = zero;
      options.positions = 8;
      Model model(m, options, *ops, arena, groups);
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

void flip_bit(const Tensor& t) { *static_cast<uint32_t*>(t.data) ^= 1u; }

// The first element of a parameter's kept state, if this rank keeps it.
void flip_state(ParamStore& store, const std::string& name, StateKind kind) {
  const ParamId id = store.table().find(name);
  for (const ParamUnit& u : store.table().units())
    for (const ParamPart& part : store.table().parts(u, !store.sharded(kind)))
      if (part.id == id) return flip_bit(store.state(kind, {id, part.first, 1}));
}

}  // namespace

TEST_CASE("equal copies pass", "[mesh]") {
  for (const int zero : {0, 1, 2, 3})
    for (const int tp : {2, 3, 4})
      CHECK(verdict(
                zero, [](ParamStore&) {}, 0, tp) == "no difference");
}

TEST_CASE("a flipped bit of the state is named", "[mesh]") {
  using Catch::Contains;
  const std::string down = "model.layers.1.mlp.down_proj.weight";
  for (const int zero : {0, 1, 2})
    CHECK_THAT(verdict(zero, [&](ParamStore& s) { flip_state(s, down, StateKind::param); }),
               Contains("weights of " + down + " on rank 3 is not what rank 1 holds"));
  CHECK_THAT(verdict(0, [&](ParamStore& s) { flip_state(s, down, StateKind::exp_avg_sq); }),
             Contains("second moment of " + down));
  // Shards of moments have no copies over the data group, but those of replicated parameters have over the tensor
  // group.
  CHECK(verdict(1, [&](ParamStore& s) { flip_state(s, down, StateKind::exp_avg); }) == "no difference");
  // A layer's first norm is in the first shard, which ranks 0 and 1 have.
  const std::string norm = "model.layers.0.input_layernorm.weight";
  for (const int zero : {1, 3})
    CHECK_THAT(verdict(
                   zero, [&](ParamStore& s) { flip_state(s, norm, StateKind::exp_avg); }, 1),
               Contains("first moment of " + norm + " on rank 1 is not what rank 0 holds"));
  // 2 kv heads on 4 tensor ranks: ranks 0 and 1 share one, 2 and 3 the other.
  const std::string key = "model.layers.0.self_attn.k_proj.weight";
  CHECK_THAT(verdict(
                 0, [&](ParamStore& s) { flip_state(s, key, StateKind::param); }, 1, 4),
             Contains(key + " on rank "));
  // The rounded copies of bf16 weights.
  const auto flip_rounded = [&](ParamStore& s) { flip_bit(s.kept_weights({s.table().find(down), 0, 2})); };
  CHECK_THAT(verdict(1, flip_rounded, 3, 2, DType::bf16),
             Contains("rounded weights of " + down + " on rank 3 is not what rank 1 holds"));
}
