// A thousand random corruptions: each is detected, each corrupted file is named, and the previous checkpoint is used.
#include <functional>
#include <map>
#include <random>

#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;
using Files = std::map<std::string, std::string>;  // contents by name
using Random = std::mt19937_64;

constexpr int kTensor = 2, kShards = 2;

// Four ranks: tensor parallelism of two, two shards each.
path save_ranks(const path& dir, int64_t step, uint64_t seed) {
  const path hidden = begin_save(dir, step);
  std::vector<RankFile> files;
  std::unique_ptr<Ops> ops;
  for (int rank = 0; rank < kTensor * kShards; ++rank) {
    State state(small_table(kTensor, rank % kTensor, 1, kShards, rank / kTensor));
    state.fill(seed);
    files.push_back(write_rank_file(hidden, state.store, *state.ops, rank));
  }
  return finish_save(hidden, small_table(1, 0, 1), files, some_state(step),
                     {"test", Mesh(1, kShards, 1, kTensor, kTensor * kShards), 0});
}

Files read_all(const path& folder) {
  Files files;
  for (const std::string& name : names_in(folder)) files[name] = read_file(folder / name);
  return files;
}

std::string& one_of(Files& files, Random& random) {
  return std::next(files.begin(), static_cast<long>(random() % files.size()))->second;
}

void flip_bit(Files& files, Random& random) {
  std::string& content = one_of(files, random);
  content[random() % content.size()] ^= static_cast<char>(1 << random() % 8);
}

void truncate_one(Files& files, Random& random) {
  std::string& content = one_of(files, random);
  content.resize(random() % content.size());
}

// The result of a file system that lost a block.
void blank(Files& files, Random& random) {
  std::string& content = one_of(files, random);
  const size_t at = random() % content.size() / 512 * 512;
  for (size_t i = at; i < std::min(at + 512, content.size()); ++i) content[i] = '\0';
}

void append_garbage(Files& files, Random& random) {
  std::string& content = one_of(files, random);
  for (size_t n = 1 + random() % 5000; n > 0; --n) content += static_cast<char>(random());
}

void swap_two(Files& files, Random& random) { std::swap(one_of(files, random), one_of(files, random)); }

void remove_one(Files& files, Random& random) {
  files.erase(std::next(files.begin(), static_cast<long>(random() % files.size())));
}

// Still valid JSON of the right form, but with one value changed.
void alter_manifest(Files& files, Random& random) {
  std::string& text = files.at("manifest.json");
  nlohmann::ordered_json flat = nlohmann::ordered_json::parse(text).flatten();
  auto value = std::next(flat.begin(), static_cast<long>(random() % flat.size()));
  if (value->is_number_integer())
    *value = value->get<int64_t>() + 1;
  else if (value->is_string())
    *value = value->get<std::string>() + "0";
  else
    *value = nullptr;
  text = flat.unflatten().dump(2) + "\n";
}

// Writes or removes the files that differ between `before` and `now`, and returns their names.
std::vector<std::string> apply(const path& folder, const Files& before, const Files& now) {
  std::vector<std::string> changed;
  for (const auto& [name, content] : before) {
    const auto it = now.find(name);
    if (it != now.end() && it->second == content) continue;
    changed.push_back(name);
    if (it == now.end())
      std::filesystem::remove(folder / name);
    else
      write_text(folder / name, it->second);
  }
  return changed;
}

void restore(const path& folder, const Files& files, const std::vector<std::string>& changed) {
  for (const std::string& name : changed) write_text(folder / name, files.at(name));
}

// A load that does not hash the rank files must refuse, or load what was saved: damage between tensors is harmless.
bool loads_correctly(const path& folder) {
  State state(small_table(1, 0, 1));
  try {
    Checkpoint::open(folder, Checkpoint::Verify::all_but_tensors).load(state.store, *state.ops);
  } catch (const DataError&) {
    return false;
  }
  CHECK(state.wrong(2) == 0);
  return true;
}

TEST_CASE("all of a thousand corruptions are detected, and the previous checkpoint is used", "[slow]") {
  const MemoryFolder dir;
  const Files older = read_all(save_ranks(dir.path, 1, 1));
  const path newest = save_ranks(dir.path, 2, 2);
  const Files whole = read_all(newest);
  REQUIRE(whole.size() == kTensor * kShards + 5);
  const auto from_older = [&](Files& files, Random& random) {
    auto it = std::next(files.begin(), static_cast<long>(random() % files.size()));
    it->second = older.at(it->first);
  };
  const std::vector<std::pair<std::string, std::function<void(Files&, Random&)>>> kinds = {
      {"bit flipped", flip_bit},    {"cut", truncate_one},
      {"block lost", blank},        {"garbage appended", append_garbage},
      {"two swapped", swap_two},    {"removed", remove_one},
      {"manifest", alter_manifest}, {"from an older one", from_older}};
  log::configure(log::Level::error, 0, 1);  // one warning each would be a thousand
  std::map<std::string, int> found;
  int harmless = 0;
  Random random(20261122);
  for (int n = 0; n < 1000;) {
    const auto& [kind, injure] =
        kinds[random() % 2 == 0 ? random() % 2 : random() % kinds.size()];  // most: flips, cuts
    Files injured = whole;
    injure(injured, random);
    const std::vector<std::string> changed = apply(newest, whole, injured);
    if (changed.empty()) continue;
    ++n;
    INFO(n << ": " << kind << ", " << changed[0]);
    const std::string message = data_error([&] { Checkpoint::open(newest); });
    if (std::find(changed.begin(), changed.end(), "manifest.json") == changed.end())
      for (const std::string& name : changed) CHECK(contains(message, name + ": "));
    harmless += loads_correctly(newest);
    const auto fallback = find_latest(dir.path);
    REQUIRE(fallback);
    CHECK(fallback->manifest().step == 1);
    restore(newest, whole, changed);
    ++found[kind];
  }
  log::configure(log::Level::info, 0, 1);
  CHECK(found.size() == kinds.size());
  CHECK(harmless > 0);  // these files have more bytes between tensors than real ones
  CHECK(harmless < 700);
  CHECK(find_latest(dir.path)->manifest().step == 2);
}

TEST_CASE("a corrupted checkpoint is replaced by the previous one, bit for bit") {
  const MemoryFolder dir;
  save_ranks(dir.path, 1, 1);
  std::filesystem::resize_file(save_ranks(dir.path, 2, 2) / "rank-00003.h5", 4000);
  State state(small_table(1, 0, 1));
  find_latest(dir.path, &state.table)->load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

}  // namespace
}  // namespace fp::test
