// Consolidation: one file made of many, which reads as the same checkpoint.
#include "checkpoint/consolidate.h"
#include "checkpoint/inspect.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

TEST_CASE("a consolidated checkpoint holds the same tensors contiguously in one file") {
  const MemoryFolder dir;
  const Checkpoint from = Checkpoint::open(save_ranks(dir.path / "run", 7, 4, 3, 1));
  const path to = dir.path / "deep" / "copy";
  std::filesystem::create_directory(to.parent_path());
  consolidate(from, to.string() + "/", "test");
  CHECK(names_in(to.parent_path()) == std::vector<std::string>{"copy"});
  CHECK(names_in(to) == std::vector<std::string>{"config.yaml", "index.bin", "index.h5", "manifest.json",
                                                 "rank-00000.h5", "tokenizer.json"});
  const Checkpoint copy = Checkpoint::open(to);
  const CheckpointDifference d = compare(from, copy);
  CHECK(d.identical());
  CHECK(d.compared == static_cast<int64_t>(3 * small_table().size()));
  CHECK(copy.state().extra == from.state().extra);
  const h5::File file = h5::File::open(to / "rank-00000.h5");
  for (const Param& p : small_table())
    for (const std::string state : {"param", "exp_avg", "exp_avg_sq"})
      CHECK(count_fragments(file, p.name + "/" + state) == 1);
  State state(small_table(2, 1));
  copy.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

TEST_CASE("a checkpoint with weights only can be consolidated") {
  const MemoryFolder dir;
  State weights(small_table(), DType::f32, false);
  const Checkpoint from = Checkpoint::open(save(dir.path, weights, 1, 1));
  consolidate(from, dir.path / "copy", "test");
  const Checkpoint copy = Checkpoint::open(dir.path / "copy");
  CHECK(states_of(copy, copy.manifest().parameters[0].name) == std::vector<std::string>{"param"});
  CHECK(compare(from, copy).identical());
}

TEST_CASE("a checkpoint of Muon with errors of quantized sums can be consolidated") {
  const MemoryFolder dir;
  constexpr int shards = 3;
  std::vector<StateSlot> which = state_slots(OptimizerKind::muon);
  for (int i = 0; i < shards; ++i)
    which.push_back({.name = kErrorState + std::to_string(i), .dtype = DType::bf16, .errors_of = i});
  const Checkpoint from = Checkpoint::open(save_ranks(dir.path / "run", 1, 2, shards, 1, which));
  consolidate(from, dir.path / "copy", "test");
  const Checkpoint copy = Checkpoint::open(dir.path / "copy");
  const CheckpointDifference d = compare(from, copy);
  CHECK(d.identical());
  size_t states = 0;
  for (const Param& p : small_table()) states += states_of(copy, p.name).size();
  CHECK(d.compared == static_cast<int64_t>(states));
  const auto errors_of = [&](const std::string& param) {
    std::vector<std::string> names = states_of(copy, param);
    std::erase_if(names, [](const std::string& n) { return !n.starts_with(kErrorState); });
    return names;
  };
  const std::vector<std::string> all{"gradient_error.0", "gradient_error.1", "gradient_error.2"};
  CHECK(errors_of("model.layers.0.mlp.up_proj.weight") == all);
  CHECK(errors_of("model.layers.1.input_layernorm.weight") == all);
  CHECK(states_of(copy, "model.layers.0.mlp.up_proj.weight") !=
        states_of(copy, "model.layers.1.input_layernorm.weight"));
}

TEST_CASE("consolidation does not overwrite anything, and a failure leaves nothing behind") {
  const MemoryFolder dir;
  const Checkpoint from = Checkpoint::open(save_ranks(dir.path / "run", 1, 2, 1, 1));
  std::filesystem::create_directory(dir.path / "there");
  CHECK_THROWS_AS(consolidate(from, dir.path / "there", "test"), ConfigError);
  CHECK(std::filesystem::is_empty(dir.path / "there"));
  std::filesystem::remove(from.folder() / "rank-00001.h5");
  CHECK_THROWS_AS(consolidate(from, dir.path / "copy", "test"), DataError);
  CHECK(names_in(dir.path) == std::vector<std::string>{"run", "there"});
}

}  // namespace
}  // namespace fp::test
