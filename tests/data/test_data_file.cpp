// Dataset files read with pread: the same bytes as through a memory map, and errors instead of signals.
#include <catch2/catch.hpp>
#include <cerrno>

#include "base/error.h"
#include "data/formats/data_file.h"
#include "data/formats/token_stream.h"
#include "data/support.h"
#include "io/filesystem.h"
#include "io/readable_file.h"
#include "io/retry.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

BlockHashes hashes_of(const std::string& content) {
  BlockHasher hasher;
  hasher.add(std::as_bytes(std::span(content)));
  return hasher.finish();
}

std::string read_text(const DataFile& file, uint64_t at, size_t bytes) {
  std::string text(bytes, '?');
  file.read(at, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

TEST_CASE("random ranges of files equal those of memory maps, also beyond the cache's capacity") {
  const TemporaryFolder dir;
  std::mt19937 random(7);
  const std::string big = random_bytes(random, 34 * kMiB + 12345), small = random_bytes(random, 100);
  write_text(dir / "big", big);
  write_text(dir / "small", small);
  static_assert(DataFile::kPageBytes * DataFile::kMaxPages < 34 * kMiB);
  const bool hashed = GENERATE(false, true);
  for (const std::string name : {"big", "small"}) {
    const MappedFile map(dir / name);
    const DataFile file(dir / name, map.size(), hashed ? hashes_of(name == "big" ? big : small) : BlockHashes());
    int wrong = 0;
    for (int trial = 0; trial < 400; ++trial) {
      const size_t at = random() % (map.size() + 1);
      const size_t most = std::min<size_t>(map.size() - at, trial % 10 == 0 ? 3 * kMiB : 5000);
      const size_t bytes = random() % (most + 1);
      wrong += std::memcmp(read_text(file, at, bytes).data(), map.data() + at, bytes) != 0;
    }
    CHECK(wrong == 0);
    CHECK(read_text(file, 0, map.size()) == (name == "big" ? big : small));
  }
}

TEST_CASE("random ranges of a stream of several files hold the right ids") {
  const TemporaryFolder dir;
  const TokenType type = GENERATE(TokenType::u8, TokenType::u16, TokenType::i32, TokenType::i64);
  const size_t width = width_of(type);
  std::mt19937 random(3);
  std::vector<int32_t> expected;
  TokenStream stream(type);
  for (const size_t tokens : {1000, 1, 0, 300'000, 77}) {
    std::string content(5, 'x');  // a header, so that nothing is aligned
    for (size_t i = 0; i < tokens; ++i) {
      const auto id = static_cast<int64_t>(random() % 128);
      content.append(reinterpret_cast<const char*>(&id), width);
      expected.push_back(static_cast<int32_t>(id));
    }
    const auto path = dir / std::to_string(tokens);
    write_text(path, content);
    stream.add(std::make_shared<const DataFile>(path), 5, tokens);
  }
  REQUIRE(stream.size() == expected.size());
  int wrong = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const size_t begin = random() % (expected.size() + 1);
    std::vector<int32_t> ids(random() % (std::min<size_t>(expected.size() - begin, 4000) + 1));
    stream.read(begin, ids, 127);
    wrong += !std::equal(ids.begin(), ids.end(), expected.begin() + static_cast<int64_t>(begin));
  }
  CHECK(wrong == 0);
}

TEST_CASE("each MiB is read and verified once as a whole, then page by page") {
  const TemporaryFolder dir;
  std::mt19937 random(5);
  const std::string content = random_bytes(random, 2 * kMiB + 10);
  write_text(dir / "f", content);
  const DataFile file(dir / "f", content.size(), hashes_of(content));
  const uint64_t before = DataFile::bytes_read();
  read_text(file, kMiB + 5, 10);
  CHECK(DataFile::bytes_read() - before == kMiB);
  read_text(file, kMiB, kMiB);
  CHECK(DataFile::bytes_read() - before == kMiB);
  read_text(file, 2 * kMiB - 1, 2);
  CHECK(DataFile::bytes_read() - before == kMiB + 10);
  const DataFile unhashed(dir / "f");
  read_text(unhashed, kMiB + 5, 10);
  CHECK(DataFile::bytes_read() - before == kMiB + 10 + DataFile::kPageBytes);
}

TEST_CASE("a changed byte is detected on its first read, with file and position") {
  const TemporaryFolder dir;
  std::mt19937 random(5);
  std::string content = random_bytes(random, 3 * kMiB);
  const BlockHashes hashes = hashes_of(content);
  content[kMiB + 77] ^= 1;
  write_text(dir / "f", content);
  const DataFile file(dir / "f", content.size(), hashes);
  CHECK(read_text(file, 0, kMiB) == content.substr(0, kMiB));
  const std::string error = message_of<DataError>([&] { read_text(file, 2 * kMiB - 1, 1); });
  CHECK_THAT(error, Contains("f: altered: bytes 1048576 to 2097151"));
  CHECK(read_text(file, 2 * kMiB, kMiB) == content.substr(2 * kMiB));
}

TEST_CASE("a file truncated or removed while in use gives an error that names it") {
  const TemporaryFolder dir;
  std::mt19937 random(5);
  const std::string content = random_bytes(random, 2 * kMiB);
  write_text(dir / "f", content);
  const DataFile file(dir / "f");
  CHECK(read_text(file, 0, 4) == content.substr(0, 4));
  std::filesystem::resize_file(dir / "f", kMiB + 3);
  CHECK_THAT(message_of<DataError>([&] { read_text(file, kMiB + 1, 3); }),
             Contains("f: ends at byte 1048579, but 2097152 were there when it was opened: truncated"));
  const DataFile late(dir / "late", 10);
  CHECK_THAT(message_of<DataError>([&] { read_text(late, 0, 1); }), Contains("late: cannot open"));
}

TEST_CASE("a permanent disk failure is an InfrastructureError") {
  const TemporaryFolder dir;
  write_text(dir / "f", "content");
  set_read_call([](int, void*, size_t, off_t) -> ssize_t {
    errno = EIO;
    return -1;
  });
  set_retry_wait([](std::chrono::milliseconds) {});
  const DataFile file(dir / "f");
  CHECK_THAT(message_of<InfrastructureError>([&] { read_text(file, 0, 3); }), Contains("f: cannot read 7 bytes"));
  set_read_call({});
  set_retry_wait({});
  CHECK(read_text(file, 0, 3) == "con");
}

TEST_CASE("more files may be read than descriptors are kept open") {
  const TemporaryFolder dir;
  std::vector<std::unique_ptr<DataFile>> files;
  for (int i = 0; i < 200; ++i) {
    write_text(dir / std::to_string(i), std::to_string(1000 + i));
    files.push_back(std::make_unique<DataFile>(dir / std::to_string(i)));
  }
  int wrong = 0;
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 200; ++i) wrong += read_text(*files[static_cast<size_t>(i)], 0, 4) != std::to_string(1000 + i);
  CHECK(wrong == 0);
}
