// Other programs can read a checkpoint: scripts/read_checkpoint.py uses only h5py and docs/checkpoint-format.md; h5dump
// knows nothing about checkpoints.
#include <cstdlib>
#include <sstream>

#include "fixture.h"
#include "support/process.h"
#include "support/skip.h"

namespace fp::test {
namespace {

using test::run;

bool have_h5py() { return run({"/usr/bin/python3", "-c", "import h5py"}).code == 0; }

test::Outcome read_with_script(const std::filesystem::path& folder, std::vector<std::string> arguments = {}) {
  std::vector<std::string> command = {"/usr/bin/python3", FP_SOURCE_DIR "/scripts/read_checkpoint.py", folder.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(command);
}

// Saved by two tensor-parallel ranks with three shards each, then moved.
std::filesystem::path save_moved(const MemoryFolder& dir) {
  const auto folder = dir.path / "moved";
  std::filesystem::rename(save_ranks(dir.path, 1, 2, 3, 1), folder);
  return folder;
}

TEST_CASE("h5dump reads every tensor of a checkpoint that six ranks wrote") {
  if (::access("/usr/bin/h5dump", X_OK) != 0) FP_SKIP("hdf5-tools is not installed");
  const MemoryFolder dir;
  const auto folder = save_moved(dir), raw = dir.path / "raw";
  for (const Param& p : small_table())
    for (const std::string state : {"param", "exp_avg", "exp_avg_sq"}) {
      const std::string dataset = fmt::format("/{}/{}", p.name, state);
      const auto dumped =
          run({"/usr/bin/h5dump", "-d", dataset, "-b", "LE", "-o", raw.string(), (folder / "index.h5").string()});
      INFO(dumped.output);
      REQUIRE(dumped.code == 0);
      const std::string bytes = read_file(raw);
      REQUIRE(bytes.size() == static_cast<size_t>(p.shape.elements()) * sizeof(float));
      int64_t wrong = 0;
      for (int64_t i = 0; i < p.shape.elements(); ++i) {
        const float expected = known_value(p.name, state, i, 1);
        wrong += std::memcmp(bytes.data() + static_cast<size_t>(i) * sizeof expected, &expected, sizeof expected) != 0;
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("h5py reads tensors of a checkpoint that six ranks wrote") {
  if (!have_h5py()) FP_SKIP("python3-h5py is not installed");
  const MemoryFolder dir;
  const auto folder = save_moved(dir);

  const ParamTable table = small_table();
  for (const std::string name : {"model.embed_tokens.weight", "model.layers.1.self_attn.qkv_proj.weight",
                                 "model.layers.1.self_attn.o_proj.weight", "model.layers.0.self_attn.qkv_proj.bias"})
    for (const std::string state : {"param", "exp_avg", "exp_avg_sq"}) {
      const Param& p = table[table.find(name)];
      std::istringstream text(read_with_script(folder, {name, state}).output);
      std::string header;
      std::getline(text, header);
      INFO(header);
      REQUIRE(header.starts_with(fmt::format("# {} {} [{}", name, state, p.shape[0])));
      int64_t index = 0, wrong = 0;
      for (std::string word; text >> word; ++index)
        wrong += std::strtof(word.c_str(), nullptr) != known_value(name, state, index, 1);
      CHECK(index == p.shape.elements());
      CHECK(wrong == 0);
    }
}

TEST_CASE("the h5py script lists parameters and refuses unknown ones") {
  if (!have_h5py()) FP_SKIP("python3-h5py is not installed");
  const MemoryFolder dir;
  State state(small_table());
  const auto folder = save(dir.path, state, 1, 1);
  CHECK(read_with_script(folder).output.starts_with("model.embed_tokens.weight [37, 16] param exp_avg exp_avg_sq\n"));
  const auto unknown = read_with_script(folder, {"no.such.weight"});
  CHECK(contains(unknown.output, "has no param of no.such.weight"));
  CHECK(unknown.code != 0);
  std::filesystem::resize_file(folder / "rank-00000.h5", 100);
  const auto damaged = read_with_script(folder, {"model.embed_tokens.weight"});
  CHECK(contains(damaged.output, "rank-00000.h5: damaged"));
  CHECK(damaged.code != 0);
}

}  // namespace
}  // namespace fp::test
