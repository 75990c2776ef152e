// Verification of a run's data, shared among its ranks.
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "base/parallel.h"
#include "base/progress.h"
#include "comm/backends.h"
#include "data/formats/data_file.h"
#include "data/formats/manifest.h"
#include "data/formats/stamps.h"
#include "data/prepare/hashing_file.h"
#include "io/filesystem.h"
#include "launch/placement.h"
#include "support/temporary_folder.h"
#include "train/run_data.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::TemporaryFolder;

constexpr int kRanks = 8;

void write_bytes(HashingFile& file, const std::vector<uint64_t>& numbers) {
  file.write(std::as_bytes(std::span(numbers)));
}

// Writes an index of one document with all tokens, or of none, and the hashes of the index and the shards.
void write_split(const fs::path& folder, Split split, SplitRecord& record, const BlockHashes& of_shards) {
  HashingFile index(folder / fmt::format("{}.documents", name_of(split)));
  write_bytes(index, record.tokens > 0 ? std::vector<uint64_t>{0, record.tokens} : std::vector<uint64_t>{0});
  record.documents = record.tokens > 0 ? 1 : 0;
  record.index = index.close();
  HashingFile hashes(folder / fmt::format("{}.hashes", name_of(split)));
  write_bytes(hashes, of_shards);
  write_bytes(hashes, index.take_block_hashes());
  record.hashes = hashes.close();
}

// Makes a prepared folder of several shards of zeros, all of which are one sparse file with several names.
Manifest sparse_folder(const fs::path& folder, uint64_t shards, uint64_t shard_bytes) {
  fs::create_directories(folder);
  const auto tokenizer = load_tokenizer("bytes");
  Manifest m = new_manifest(*tokenizer);
  m.shard_tokens = shard_bytes / 2;
  m.highest_id = 0;
  m.documents = "line";
  m.validation_split = "none";
  m.train.tokens = shards * m.shard_tokens;
  const auto shard = [&](uint64_t s) { return fmt::format("train-{:05}.tokens", s); };
  std::ofstream(folder / shard(0)).close();
  fs::resize_file(folder / shard(0), shard_bytes);
  const std::string xxh3 = hash_file(folder / shard(0));
  for (uint64_t s = 0; s < shards; ++s) {
    if (s > 0) fs::create_hard_link(folder / shard(0), folder / shard(s));
    m.train.shards.push_back({shard(s), shard_bytes, xxh3});
  }
  const std::vector<std::byte> zeros(kHashedBlock);
  write_split(folder, Split::train, m.train, BlockHashes(shards * blocks_in(shard_bytes), hash_of_block(zeros)));
  write_split(folder, Split::validation, m.validation, {});
  write_manifest(folder, *tokenizer, m);
  return m;
}

RunSpec spec_of_data(const fs::path& folder) {
  RunSpec spec;
  spec.data.train = {{folder.string()}};
  spec.data.seq_len = 64;
  return spec;
}

// Returns the bytes that all ranks together read while they open the run's data.
uint64_t bytes_to_start(const fs::path& folder) {
  const uint64_t before = DataFile::bytes_read();
  run_thread_ranks(kRanks, [&](World& world) {
    set_threads(1);
    std::vector<int> all;
    for (int r = 0; r < kRanks; ++r) all.push_back(r);
    const auto group = world.group("world", all);
    const RunData data(spec_of_data(folder), *group);
  });
  return DataFile::bytes_read() - before;
}

std::string start_error(const fs::path& folder) {
  try {
    bytes_to_start(folder);
  } catch (const DataError& e) {
    return e.what();
  }
  return "no error";
}

// FPTRAIN_TEST_DATA_GIB asks for another size, such as 64.
TEST_CASE("ranks verify 2 GiB of data once, shared between them, and nothing at the second start", "[slow]") {
  const char* asked = std::getenv("FPTRAIN_TEST_DATA_GIB");
  const uint64_t blocks = (asked == nullptr ? 2 : std::stoull(asked)) << 10;
  const TemporaryFolder folder;
  const Manifest m = sparse_folder(folder / "data", 4, blocks / 4 * kHashedBlock);
  CHECK(bytes_to_start(folder / "data") == blocks * kHashedBlock + m.train.index.bytes);
  CHECK(bytes_to_start(folder / "data") == 0);
}

// The watchdog ends a run whose set-up reports no progress for watchdog.setup_s, however much data there is.
TEST_CASE("ranks report progress for every MiB of data that they verify") {
  const TemporaryFolder folder;
  sparse_folder(folder / "data", 4, 32 * kHashedBlock);
  std::atomic<uint64_t> reports{0};
  set_progress_hook([&] { ++reports; });
  bytes_to_start(folder / "data");
  CHECK(reports >= 128);
  reports = 0;
  bytes_to_start(folder / "data");
  set_progress_hook({});
  CHECK(reports < 128);
}

TEST_CASE("only changed shards are verified again, shared by all ranks") {
  const TemporaryFolder folder;
  const Manifest m = sparse_folder(folder / "data", 20, kHashedBlock);
  CHECK(bytes_to_start(folder / "data") == 20 * kHashedBlock + m.train.index.bytes);
  const fs::path changed = folder / "data/train-00013.tokens";
  fs::copy_file(changed, folder / "copy");
  fs::rename(folder / "copy", changed);
  CHECK(bytes_to_start(folder / "data") == kHashedBlock);
  CHECK(bytes_to_start(folder / "data") == 0);
}

TEST_CASE("an altered byte stops all ranks with an error naming file, rank and host") {
  const TemporaryFolder folder;
  sparse_folder(folder / "data", 20, kHashedBlock);
  const fs::path changed = folder / "data/train-00013.tokens";
  std::string content = read_file(changed);
  content[12345] = 1;
  fs::remove(changed);
  std::ofstream(changed) << content;
  const std::string error = start_error(folder / "data");
  CHECK_THAT(error, Contains("train-00013.tokens: altered: bytes 0 to 1048575"));
  CHECK_THAT(error, Catch::Matchers::StartsWith("rank ") && Contains(" on " + host_name() + ": "));
  CHECK_FALSE(fs::exists(folder / "data" / Stamps::kFileName));
  fs::resize_file(changed, 7);
  CHECK_THAT(start_error(folder / "data"), Contains("train-00013.tokens: 7 bytes, but the manifest says 1048576"));
}

TEST_CASE("in an older folder the ranks verify whole shards and record the block hashes") {
  const TemporaryFolder folder;
  Manifest m = sparse_folder(folder / "data", 11, 3 * kHashedBlock);
  for (const Split split : {Split::train, Split::validation}) {
    fs::remove(folder / "data" / m.split(split).hashes.name);
    m.split(split).hashes = {};
  }
  std::ofstream(folder / "data/manifest.json") << serialize(m);
  CHECK(bytes_to_start(folder / "data") == 33 * kHashedBlock + m.train.index.bytes);
  CHECK(bytes_to_start(folder / "data") == 0);
  CHECK(fs::file_size(folder / "data/verified-train.hashes") == (33 + 1) * sizeof(uint64_t));
}

}  // namespace
}  // namespace fp
