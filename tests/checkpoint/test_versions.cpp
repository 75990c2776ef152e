// Manifests of format version 1, and the lists of states of later versions.
#include "checkpoint/inspect.h"
#include "fixture.h"

namespace fp::test {
namespace {

using nlohmann::json;
using std::filesystem::path;

TEST_CASE("a checkpoint that a program of format version 1 saved is read") {
  const Checkpoint c = Checkpoint::open(FP_SOURCE_DIR "/tests/checkpoint/version-1");
  verify_tensors(c);
  CHECK(c.manifest().step == 2);
  CHECK(states_of(c, c.manifest().parameters[0].name) == std::vector<std::string>{"param", "exp_avg", "exp_avg_sq"});
  ParamTable table;
  for (const CheckpointParam& p : c.manifest().parameters) table.add(p.name, p.shape, Partition::replicated(), {});
  table.set_slots(slots());
  State state(table);
  CHECK_NOTHROW(c.load(state.store, *state.ops));
}

TEST_CASE("versions 1 and 2 of a checkpoint load the same state") {
  const MemoryFolder dir;
  const path folder = save_ranks(dir.path, 1, 2, 2, 5);
  make_version_1(folder);
  CHECK(manifest_of(folder)["parameters"][0].contains("fingerprints"));
  State state(small_table());
  load_checkpoint(folder, state.store, *state.ops);
  CHECK(state.wrong(5) == 0);
  CHECK(manifest_of(save(dir.path / "new", state, 2, 5))["version"] == 2);
}

TEST_CASE("training does not resume from a checkpoint with the states of another optimizer") {
  const MemoryFolder dir;
  ParamTable table = small_table();
  table.set_slots({{"param"}, {"exp_avg"}});
  State saved(table), state(small_table());
  const Checkpoint c = Checkpoint::open(save(dir.path, saved, 1, 5));
  CHECK(states_of(c, table[0].name) == std::vector<std::string>{"param", "exp_avg"});
  try {
    c.load(state.store, *state.ops);
    FAIL("it was loaded");
  } catch (const ConfigError& e) {
    CHECK(contains(e.what(), "holds the states param, exp_avg of " + table[0].name +
                                 ", but the optimizer of the run spec "
                                 "(optimizer.kind) keeps param, exp_avg, exp_avg_sq"));
  }
  c.load_weights(state.store, *state.ops);
  CHECK(state.wrong(5, kParamSlot) == 0);
}

TEST_CASE("states that only some parameters have are saved and loaded on other numbers of ranks") {
  const MemoryFolder dir;
  const std::vector<StateSlot> some = {{"param"},
                                       {.name = "momentum", .scope = StateSlot::Scope::matrices},
                                       {.name = "exp_avg", .scope = StateSlot::Scope::others}};
  const Checkpoint c = Checkpoint::open(save_ranks(dir.path, 1, 2, 2, 5, some));
  verify_tensors(c);
  CHECK(states_of(c, "model.layers.1.mlp.down_proj.weight") == std::vector<std::string>{"param", "momentum"});
  CHECK(states_of(c, "model.layers.1.self_attn.qkv_proj.bias") == std::vector<std::string>{"param", "exp_avg"});
  CHECK(states_of(c, "model.embed_tokens.weight") == std::vector<std::string>{"param", "exp_avg"});
  for (const int shards : {1, 3})
    for (int shard = 0; shard < shards; ++shard) {
      ParamTable table = small_table(1, 0, 2, shards, shard);
      table.set_slots(some);
      State state(table, StoreOptions{DType::f32, true, DType::f32, 1});
      c.load(state.store, *state.ops);
      CHECK(state.wrong(5) == 0);
    }
  State every(small_table());
  CHECK_THROWS_WITH(c.load(every.store, *every.ops), Catch::Contains("keeps param, exp_avg, exp_avg_sq"));
}

TEST_CASE("states that a manifest cannot have are refused") {
  const MemoryFolder dir;
  const path folder = save_ranks(dir.path, 1, 1, 1, 5);
  const json good = manifest_of(folder);
  const auto refusal = [&](const std::function<void(json & states)>& alter) {
    json m = good;
    alter(m["parameters"][1]["states"]);
    reseal(folder, m);
    return data_error([&] { Checkpoint::open(folder); });
  };
  CHECK(contains(refusal([](json& s) { s[1]["dtype"] = "int4"; }), "has the type 'int4'; legal in version 2: fp32"));
  CHECK(contains(refusal([](json& s) { s[1]["dtype"] = "bf16"; }), "has the type 'bf16'; legal in version 2: fp32"));
  CHECK(contains(refusal([](json& s) { s[2]["name"] = "exp_avg"; }), "is listed twice"));
  CHECK(contains(refusal([](json& s) { s[1]["name"] = "a/b"; }), "'a/b' is not the name of a state of"));
  CHECK(contains(refusal([](json& s) { std::swap(s[0], s[1]); }), "is not the parameter itself, 'param'"));
  CHECK(contains(refusal([](json& s) { s = json::array(); }), "is not the parameter itself, 'param'"));
  CHECK(contains(refusal([](json& s) { s[0]["fingerprint"] = "12"; }), "hexadecimal digits"));
}

}  // namespace
}  // namespace fp::test
