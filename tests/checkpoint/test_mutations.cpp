// Files of a checkpoint with random byte changes and corrected hashes: refused, or read correctly.
#include <random>

#include "checkpoint/inspect.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

// With a state in bf16 beside those of AdamW.
ParamTable mutated_table(int shards, int shard) {
  ParamTable table = small_table(1, 0, 1, shards, shard);
  std::vector<StateSlot> which = slots();
  which.push_back({.name = kNarrowState, .dtype = DType::bf16});
  table.set_slots(which);
  return table;
}

struct Verdicts {
  int refused = 0, right = 0;
};

// Opens, verifies and loads the checkpoint as commands and resuming runs do. A UserError counts as a refusal; what is
// loaded must be what was saved; anything else fails the test.
void load_mutated(const path& folder, Verdicts& verdicts) {
  State state(mutated_table(1, 0));
  try {
    const Checkpoint checkpoint = Checkpoint::open(folder, Checkpoint::Verify::all_but_tensors);
    checkpoint.state();
    verify_tensors(checkpoint);
    compare(checkpoint, checkpoint);
    checkpoint.load(state.store, *state.ops);
  } catch (const UserError&) {
    ++verdicts.refused;
    return;
  }
  CHECK(state.wrong(1) == 0);
  ++verdicts.right;
}

// Changes one to eight bytes.
std::string mutated(std::string content, std::mt19937_64& random) {
  for (uint64_t n = 1 + random() % 8; n > 0; --n) {
    char& byte = content[random() % content.size()];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1 + random() % 255));
  }
  return content;
}

path save_of_three_ranks(const path& dir) {
  const path hidden = begin_save(dir, 1);
  std::vector<RankFile> files;
  for (int rank = 0; rank < 3; ++rank) {
    State state(mutated_table(3, rank), StoreOptions{DType::f32, true, DType::f32, 1});
    state.fill(1);
    files.push_back(write_rank_file(hidden, state.store, *state.ops, rank));
  }
  return finish_save(hidden, mutated_table(1, 0), files, some_state(1), {"test", Mesh(1, 3, 1, 1, 3), 0});
}

Verdicts verdicts_on_mutations_of(const std::string& file, int count) {
  const MemoryFolder dir;
  const path folder = save_of_three_ranks(dir.path);
  const std::string whole = read_file(folder / file);
  std::mt19937_64 random(315);
  Verdicts verdicts;
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    write_text(folder / file, mutated(whole, random));
    seal(folder, file);
    load_mutated(folder, verdicts);
  }
  return verdicts;
}

TEST_CASE("315 mutated index.bin files are refused or read correctly") {
  const Verdicts v = verdicts_on_mutations_of("index.bin", 315);
  CHECK(v.refused > 250);
  CHECK(v.refused + v.right == 315);
}

TEST_CASE("315 mutated index.h5 files are not parsed") {
  CHECK(verdicts_on_mutations_of("index.h5", 315).right == 315);
}

// Changes one value in a manifest and corrects its hash.
std::string with_other_value(const std::string& manifest, std::mt19937_64& random) {
  static const auto kValues = nlohmann::ordered_json::parse(
      R"([null, true, -1, 0, 1, 2, 1e300, -0.5, 1.5, -9223372036854775808, 9223372036854775807, 18446744073709551615,
          2147483648, 2305843009213693952, "", ".", "..", "a/b", "a%d", "\u0000x", "\u001b]0;x\u0007", "rank-00000.h5",
          "index.bin", "manifest.json", "carried-", "carried-..", "0123456789abcdef", [], {}, [1, 2, 3, 4, 5, 6]])");
  nlohmann::ordered_json flat = nlohmann::ordered_json::parse(manifest).flatten();
  const auto at = std::next(flat.begin(), static_cast<long>(random() % flat.size()));
  *at = kValues[random() % kValues.size()];
  nlohmann::ordered_json j;
  try {
    j = flat.unflatten();
  } catch (const nlohmann::json::exception&) {  // unflatten() cannot restore lists
    j = nlohmann::ordered_json::parse(manifest);
    j[nlohmann::ordered_json::json_pointer(at.key())] = at.value();
  }
  j.erase("xxh3");
  std::string text = j.dump(2);
  text.replace(text.size() - 2, 2, ",\n  \"xxh3\"");
  return resealed(text);
}

TEST_CASE("1000 mutated manifests are refused or read correctly") {
  const MemoryFolder dir;
  const path folder = save_of_three_ranks(dir.path), file = folder / "manifest.json";
  const std::string whole = read_file(file), body = whole.substr(0, whole.rfind("  \"xxh3\""));
  log::configure(log::Level::error, 0, 1);
  std::mt19937_64 random(1000);
  Verdicts verdicts;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    write_text(file, i % 2 == 0 ? resealed(mutated(body, random) + "  \"xxh3\"") : with_other_value(whole, random));
    load_mutated(folder, verdicts);
  }
  log::configure(log::Level::info, 0, 1);
  CHECK(verdicts.refused > 500);
  CHECK(verdicts.right > 5);
}

}  // namespace
}  // namespace fp::test
