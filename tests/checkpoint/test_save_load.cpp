#include <nlohmann/json.hpp>

#include "fixture.h"

namespace fp::test {
namespace {

TEST_CASE("a checkpoint restores every bit of the state") {
  const MemoryFolder dir;
  const DType compute = GENERATE(DType::f32, DType::bf16);
  State saved(small_table(), compute), loaded(small_table(), compute);
  const auto path = save(dir.path / "checkpoints", saved, 100, 1);
  CHECK(path.filename() == "step-00000100");
  CHECK(loaded.wrong(1) > 0);
  const TrainState state = load_checkpoint(path, loaded.store, *loaded.ops);
  CHECK(loaded.wrong(1) == 0);
  CHECK(std::memcmp(saved.store.weights().data, loaded.store.weights().data, 2 * 37 * 16) == 0);

  const TrainState expected = some_state(100);
  CHECK(state.step == expected.step);
  CHECK(state.consumed_samples == expected.consumed_samples);
  CHECK(state.last_loss == expected.last_loss);
  CHECK(state.extra == expected.extra);
  CHECK(state.config_yaml == expected.config_yaml);
  CHECK(state.tokenizer_json == expected.tokenizer_json);
}

TEST_CASE("the gaps between parameters and the gradients become zero on loading") {
  const MemoryFolder dir;
  State saved(small_table()), loaded(small_table());
  const auto path = save(dir.path, saved, 1, 1);
  load_checkpoint(path, loaded.store, *loaded.ops);
  std::vector<bool> in_parameter(static_cast<size_t>(loaded.table.flat_elements()));
  for (const Param& p : loaded.table) std::fill_n(in_parameter.begin() + p.offset, p.local_elements(), true);
  for (size_t i = 0; i < in_parameter.size(); ++i) {
    REQUIRE(loaded.store.grads().ptr<float>()[i] == 0.0f);
    if (!in_parameter[i]) REQUIRE(loaded.store.slot(2).ptr<float>()[i] == 0.0f);
  }
}

TEST_CASE("weights alone load into bf16 and fp32 stores") {
  const MemoryFolder dir;
  State saved(small_table());
  const auto path = save(dir.path, saved, 1, 1);
  State f32(small_table(), DType::f32, false);
  load_checkpoint(path, f32.store, *f32.ops);
  CHECK(f32.wrong(1) == 0);
  State half(small_table(), DType::bf16, false);
  load_checkpoint(path, half.store, *half.ops);
  for (ParamId id = 0; id < static_cast<ParamId>(half.table.size()); ++id) {
    const std::vector<int64_t> logical = half.logical_indices(id);
    for (size_t i = 0; i < logical.size(); ++i) {
      const float exact = logical[i] < 0 ? 0.0f : known_value(half.table[id].name, "param", logical[i], 1);
      REQUIRE(half.store.weight(id).ptr<bf16>()[i].bits == bf16(exact).bits);
    }
  }
}

TEST_CASE("a tensor of several blocks is restored completely") {
  const MemoryFolder dir;
  ParamTable table;
  table.add("wide", {2, 2100017}, Partition::replicated(), {});  // a row is more than a block
  table.add("long", {2200003}, Partition::replicated(), {});
  table.add("tall", {5001, 500}, Partition::replicated(), {});
  State saved(table), loaded(table);
  load_checkpoint(save(dir.path, saved, 1, 1), loaded.store, *loaded.ops);
  CHECK(loaded.wrong(1) == 0);
}

TEST_CASE("a missing last loss is restored as NaN") {
  const MemoryFolder dir;
  State s(small_table());
  s.fill(1);
  TrainState state = some_state(0);
  state.last_loss = std::numeric_limits<double>::quiet_NaN();
  state.tokenizer_json.clear();
  const auto path = save_checkpoint(dir.path, s.store, *s.ops, state, {});
  const TrainState back = Checkpoint::open(path).state();
  CHECK(std::isnan(back.last_loss));
  CHECK(back.tokenizer_json.empty());
}

TEST_CASE("a checkpoint folder can be moved") {
  const MemoryFolder dir;
  State saved(small_table()), loaded(small_table());
  const auto path = save(dir.path / "here", saved, 7, 1);
  std::filesystem::create_directories(dir.path / "there" / "deep");
  std::filesystem::rename(path, dir.path / "there" / "deep" / "moved");
  load_checkpoint(dir.path / "there" / "deep" / "moved", loaded.store, *loaded.ops);
  CHECK(loaded.wrong(1) == 0);
}

TEST_CASE("a checkpoint of another model is refused with the first of what differs") {
  const MemoryFolder dir;
  State saved(small_table());
  const auto path = save(dir.path, saved, 1, 1);
  ParamTable other;
  for (const Param& p : small_table())
    if (p.layer != 1)
      other.add(p.name, p.name == "model.embed_tokens.weight" ? Shape{40, 16} : p.shape, Partition::replicated(),
                p.init);
  other.add("model.norm.weight", {16}, Partition::replicated(), {});
  State loaded(other);
  const std::string message = data_error([&] { load_checkpoint(path, loaded.store, *loaded.ops); });
  CHECK(contains(message, path.string()));
  CHECK(contains(message, "model.embed_tokens.weight is [40,16] in the model but [37,16] in the checkpoint"));
  CHECK(contains(message, "model.norm.weight [16] is not in the checkpoint"));
  const std::vector<std::string> all = Checkpoint::open(path).mismatches(other);
  CHECK(std::ranges::count(all,
                           "model.layers.1.mlp.up_proj.weight [24,16] is in the checkpoint but not in the model") == 1);
  CHECK(contains(message, fmt::format("... and {} more", all.size() - 5)));
}

TEST_CASE("training does not resume from a checkpoint without moments") {
  const MemoryFolder dir;
  State weights(small_table(), DType::f32, false), training(small_table());
  const auto path = save(dir.path, weights, 1, 1);
  CHECK(contains(data_error([&] { load_checkpoint(path, training.store, *training.ops); }), "no optimizer states"));
  State again(small_table(), DType::f32, false);
  load_checkpoint(path, again.store, *again.ops);
  CHECK(again.wrong(1) == 0);
}

}  // namespace
}  // namespace fp::test
