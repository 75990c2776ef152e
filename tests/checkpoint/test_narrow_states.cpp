// States that are kept in bf16 are stored in bf16: by fptrain, h5py and HDF5 they are read as the same values.
#include <cstdlib>
#include <sstream>

#include "checkpoint/consolidate.h"
#include "checkpoint/inspect.h"
#include "checkpoint/verify_hdf5.h"
#include "fixture.h"
#include "support/process.h"
#include "support/skip.h"

namespace fp::test {
namespace {

using nlohmann::json;
using std::filesystem::path;

// AdamW's states, all fp32, and one more.
std::vector<StateSlot> with_average(DType dtype) {
  std::vector<StateSlot> which = slots();
  which.push_back({.name = kNarrowState, .dtype = dtype});
  return which;
}

int64_t wrong_after_load(const Checkpoint& c, int shards, int shard, DType dtype) {
  ParamTable table = small_table(1, 0, 2, shards, shard);
  table.set_slots(with_average(dtype));
  State state(table, StoreOptions{DType::f32, true, DType::f32, 1});
  c.load(state.store, *state.ops);
  return state.wrong(5);
}

TEST_CASE("a state in bf16 takes two bytes an element in a checkpoint, and loads on other ranks") {
  const MemoryFolder dir;
  const Checkpoint wide = Checkpoint::open(test::save_ranks(dir.path / "wide", 1, 2, 3, 5, with_average(DType::f32)));
  const Checkpoint narrow =
      Checkpoint::open(test::save_ranks(dir.path / "narrow", 1, 2, 3, 5, with_average(DType::bf16)));
  CHECK(manifest_of(wide.folder())["version"] == 2);
  CHECK(manifest_of(narrow.folder())["version"] == 3);
  for (const CheckpointParam& p : narrow.manifest().parameters)
    for (const StoredState& s : p.states) CHECK(s.dtype == (s.name == kNarrowState ? DType::bf16 : DType::f32));
  {
    const h5::File file = h5::File::open(narrow.folder() / "rank-00000.h5");
    CHECK(file.dataset("model.embed_tokens.weight/average/0").dtype() == DType::bf16);
    CHECK(file.dataset("model.embed_tokens.weight/param/0").dtype() == DType::f32);
  }
  CHECK(compare(wide, narrow).identical());
  verify_with_hdf5(narrow);
  for (const int shards : {1, 3})
    for (int shard = 0; shard < shards; ++shard) {
      CHECK(wrong_after_load(narrow, shards, shard, DType::bf16) == 0);
      CHECK(wrong_after_load(wide, shards, shard, DType::bf16) == 0);
      CHECK(wrong_after_load(narrow, shards, shard, DType::f32) == 0);
    }
  consolidate(narrow, dir.path / "copy", "test");
  const Checkpoint copy = Checkpoint::open(dir.path / "copy");
  CHECK(compare(narrow, copy).identical());
  CHECK(copy.manifest().parameters == narrow.manifest().parameters);
}

TEST_CASE("h5py reads a state in bf16") {
  if (test::run({"/usr/bin/python3", "-c", "import h5py"}).code != 0) FP_SKIP("python3-h5py is not installed");
  const MemoryFolder dir;
  const path folder = test::save_ranks(dir.path, 1, 2, 3, 5, with_average(DType::bf16));
  const std::string name = "model.layers.1.self_attn.qkv_proj.weight";
  std::istringstream text(
      test::run({"/usr/bin/python3", FP_SOURCE_DIR "/scripts/read_checkpoint.py", folder.string(), name, kNarrowState})
          .output);
  std::string header;
  std::getline(text, header);
  CHECK(header == fmt::format("# {} average [48, 16] float32", name));
  int64_t index = 0, wrong = 0;
  for (std::string word; text >> word; ++index)
    wrong += std::strtof(word.c_str(), nullptr) != known_value(name, kNarrowState, index, 5);
  CHECK(index == 48 * 16);
  CHECK(wrong == 0);
}

TEST_CASE("a manifest that names another type than is stored is refused") {
  const MemoryFolder dir;
  const path folder = test::save_ranks(dir.path, 1, 1, 1, 5, with_average(DType::bf16));
  const json good = manifest_of(folder);
  const auto refusal = [&](size_t state, const char* dtype, const auto& use) {
    json m = good;
    for (json& p : m["parameters"]) p["states"][state]["dtype"] = dtype;
    reseal(folder, m);
    const Checkpoint c = Checkpoint::open(folder);
    return data_error([&] { use(c); });
  };
  const auto load = [](const Checkpoint& c) { wrong_after_load(c, 1, 0, DType::bf16); };
  CHECK(contains(refusal(3, "fp32", load), "bytes of model.layers.1.mlp.down_proj.weight/average at byte"));
  CHECK(contains(refusal(0, "bf16", load), "param of model.layers.0.input_layernorm.weight"));
  CHECK(contains(refusal(3, "fp32", verify_with_hdf5), "has elements of bf16, should have fp32"));
  CHECK(contains(refusal(0, "bf16", verify_with_hdf5), "has elements of fp32, should have bf16"));

  json mixed = good;
  mixed["parameters"][1]["states"][3]["dtype"] = "fp32";
  reseal(folder, mixed);
  CHECK(contains(data_error([&] { Checkpoint::open(folder); }),
                 "average of model.layers.0.input_layernorm.weight has the type fp32, and bf16 of other parameters"));
}

TEST_CASE("a value that is not exact in its type is not saved") {
  const MemoryFolder dir;
  ParamTable table = small_table();
  table.set_slots(with_average(DType::bf16));
  struct Inexact : BlockSource {
    bool has(ParamId, int) const override { return true; }
    const float* read(const StateBlock& b) override {
      values.assign(static_cast<size_t>(b.fragment.count.elements()), 1.0f / 3);
      return values.data();
    }
    std::vector<float> values;
  } source;
  const path hidden = begin_save(dir.path, 1);
  CHECK_THROWS_AS(write_rank_file(hidden, table, source, 0), InternalError);
}

}  // namespace
}  // namespace fp::test
