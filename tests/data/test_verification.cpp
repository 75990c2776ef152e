// Prepared folders are verified once, then only where they changed; changes that stamps miss are detected when read.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/error.h"
#include "data/formats/data_file.h"
#include "data/formats/prepared_dataset.h"
#include "data/formats/stamps.h"
#include "data/support.h"
#include "io/filesystem.h"
#include "support/nobody.h"
#include "support/skip.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

constexpr OpenOptions kChanged{Verify::changed};

// A folder with several shards; `older`: as programs wrote it before there were hashes of each MiB.
void prepare_folder(const TemporaryFolder& dir, bool older) {
  Manifest m = prepare_lines(dir, numbered_lines(400), "out", [](PrepareOptions& o) { o.shard_tokens = 2000; });
  REQUIRE(m.train.shards.size() > 2);
  REQUIRE(m.version() == 3);
  if (!older) return;
  for (const Split split : {Split::train, Split::validation}) {
    fs::remove(dir / "out" / m.split(split).hashes.name);
    m.split(split).hashes = {};
  }
  REQUIRE(m.version() == 1);
  write_text(dir / "out/manifest.json", serialize(m));
}

// Returns the bytes of data that are read while the folder's training split is opened.
uint64_t bytes_to_open(const fs::path& folder, const OpenOptions& options = kChanged) {
  const uint64_t before = DataFile::bytes_read();
  const PreparedDataset dataset(folder, Split::train, options);
  return DataFile::bytes_read() - before;
}

uint64_t bytes_of_files(const fs::path& folder) {
  const Manifest m = read_manifest(folder);
  uint64_t bytes = m.train.index.bytes;
  for (const FileRecord& shard : m.train.shards) bytes += shard.bytes;
  return bytes;
}

// Alters a byte; `hidden`: also restores the file's time.
void alter(const fs::path& file, size_t at, bool hidden) {
  const auto time = fs::last_write_time(file);
  std::string content = read_file(file);
  content.at(at) ^= 1;
  write_text(file, content);
  fs::last_write_time(file, hidden ? time : time + std::chrono::seconds(5));
}

std::string changed_error(const fs::path& folder) {
  return message_of<DataError>([&] { PreparedDataset(folder, Split::train, kChanged); });
}

// The tokens of the second shard.
void read_second_shard(const PreparedDataset& dataset) {
  std::vector<int32_t> ids(2000);
  dataset.read(2000, ids);
}

// One of eight ranks, without communication with the others.
class LonelyRank : public WorkSharing {
 public:
  explicit LonelyRank(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return 8; }
  std::string on_rank_0(const std::function<std::string()>&) override { return "\n"; }

 private:
  int rank_;
};

// Sets an environment variable and restores its value at the end of the scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("the first opening reads everything once and the second nothing") {
  const bool older = GENERATE(false, true);
  const TemporaryFolder dir;
  prepare_folder(dir, older);
  CHECK(bytes_to_open(dir / "out") == bytes_of_files(dir / "out"));
  CHECK(bytes_to_open(dir / "out") == 0);
  CHECK(fs::exists(dir / "out/verified"));
  CHECK(fs::exists(dir / "out/verified-train.hashes") == older);
  PreparedDataset(dir / "out", Split::validation, kChanged);
  CHECK(bytes_to_open(dir / "out") == 0);
  CHECK(bytes_to_open(dir / "out", {Verify::nothing}) == 0);
  CHECK(bytes_to_open(dir / "out", {Verify::everything}) == bytes_of_files(dir / "out"));
}

TEST_CASE("other JSON under the name of a manifest is not taken for a dataset") {
  const TemporaryFolder dir;
  for (const char* text : {"[1]", "7", R"({"hello": 3})"}) {
    write_text(dir / "manifest.json", text);
    CHECK_THROWS_WITH(read_manifest(dir / "."),
                      Contains("not the manifest of a folder made by `fptrain data prepare`"));
  }
}

TEST_CASE("ranks read equal amounts that together cover everything") {
  const TemporaryFolder dir;
  const Manifest m = prepare_lines(dir, numbered_lines(400), "out", [](PrepareOptions& o) { o.shard_tokens = 50; });
  REQUIRE(m.train.shards.size() > 100);
  uint64_t sum = 0, most = 0;
  for (int rank = 0; rank < 8; ++rank) {
    LonelyRank sharing(rank);
    const uint64_t bytes = bytes_to_open(dir / "out", {Verify::changed, &sharing});
    sum += bytes;
    most = std::max(most, bytes);
  }
  CHECK(sum == bytes_of_files(dir / "out"));
  CHECK(most <= std::max(sum / 8 + 100, m.train.index.bytes));  // the longest range
}

TEST_CASE("a folder from an older version has the same samples and identity") {
  const TemporaryFolder dir;
  prepare_folder(dir, false);
  const auto content = [&] {
    const PreparedDataset dataset(dir / "out", Split::train, kChanged);
    std::vector<int32_t> ids(dataset.tokens());
    dataset.read(0, ids);
    return std::tuple(dataset.identity(), ids, dataset.document(7), dataset.documents());
  };
  const auto now = content();
  fs::remove_all(dir / "out");
  prepare_folder(dir, true);
  CHECK(content() == now);
}

TEST_CASE("only a changed file is verified again") {
  const bool older = GENERATE(false, true);
  const TemporaryFolder dir;
  prepare_folder(dir, older);
  bytes_to_open(dir / "out");
  const fs::path shard = dir / "out/train-00001.tokens";
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::seconds(5));
  CHECK(bytes_to_open(dir / "out") == fs::file_size(shard));
  CHECK(bytes_to_open(dir / "out") == 0);
  alter(shard, 100, false);
  CHECK_THAT(changed_error(dir / "out"), Contains("train-00001.tokens: altered"));
  CHECK_THAT(changed_error(dir / "out"), Contains("train-00001.tokens: altered"));
  fs::resize_file(shard, 10);
  CHECK_THAT(changed_error(dir / "out"), Contains("train-00001.tokens: 10 bytes, but the manifest says 4000"));
  fs::remove(shard);
  CHECK_THAT(changed_error(dir / "out"), Contains("train-00001.tokens: cannot examine the file"));
}

TEST_CASE("a changed byte that the stamp does not reveal is detected when it is read") {
  const bool older = GENERATE(false, true);
  const TemporaryFolder dir;
  prepare_folder(dir, older);
  bytes_to_open(dir / "out");
  SECTION("in a shard") {
    alter(dir / "out/train-00001.tokens", 100, true);
    const PreparedDataset dataset(dir / "out", Split::train, kChanged);
    std::vector<int32_t> ids(2000);
    dataset.read(0, ids);
    CHECK_THAT(message_of<DataError>([&] { read_second_shard(dataset); }), Contains("train-00001.tokens: altered"));
  }
  SECTION("in the index") {
    alter(dir / "out/train.documents", 64, true);
    const PreparedDataset dataset(dir / "out", Split::train, kChanged);
    CHECK_THAT(message_of<DataError>([&] { dataset.document(3); }), Contains("train.documents: altered"));
  }
}

TEST_CASE("damaged stamps are ignored and false ones do not hide altered data") {
  const TemporaryFolder dir;
  prepare_folder(dir, false);
  bytes_to_open(dir / "out");
  const uint64_t all = bytes_of_files(dir / "out");
  const std::string good = read_file(dir / "out/verified");
  SECTION("damaged stamps are ignored") {
    for (size_t at = 0; at < good.size(); at += 7) {
      std::string bad = good;
      bad[at] ^= 4;
      write_text(dir / "out/verified", bad);
      CHECK(bytes_to_open(dir / "out") == all);
    }
  }
  SECTION("truncated, empty or foreign files are ignored") {
    for (const std::string& bad : {good.substr(0, good.size() / 2), std::string(), std::string("end \n"), "x" + good}) {
      write_text(dir / "out/verified", bad);
      CHECK(bytes_to_open(dir / "out") == all);
    }
  }
  SECTION("a false stamp does not hide a change from the hashes") {
    alter(dir / "out/train-00001.tokens", 100, false);
    Stamps lie = Stamps::parse(good);
    lie.files.at("train-00001.tokens") = facts_of(dir / "out/train-00001.tokens");
    write_text(dir / "out/verified", lie.text());
    const PreparedDataset dataset(dir / "out", Split::train, kChanged);
    CHECK_THAT(message_of<DataError>([&] { read_second_shard(dataset); }), Contains("train-00001.tokens: altered"));
  }
  SECTION("stamps of another manifest are ignored") {
    fs::remove_all(dir / "out");
    prepare_lines(dir, numbered_lines(300), "out");
    write_text(dir / "out/verified", good);
    CHECK(bytes_to_open(dir / "out") == bytes_of_files(dir / "out"));
  }
}

TEST_CASE("hashes of an older folder that do not match their record are recomputed") {
  const TemporaryFolder dir;
  prepare_folder(dir, true);
  bytes_to_open(dir / "out");
  const std::string good = read_file(dir / "out/verified-train.hashes");
  for (const std::string& bad : {std::string(), good.substr(1) + "x"}) {
    write_text(dir / "out/verified-train.hashes", bad);
    CHECK(bytes_to_open(dir / "out") == bytes_of_files(dir / "out"));
    CHECK(read_file(dir / "out/verified-train.hashes") == good);
  }
  fs::remove(dir / "out/verified-train.hashes");
  CHECK(bytes_to_open(dir / "out") == bytes_of_files(dir / "out"));
  CHECK(bytes_to_open(dir / "out") == 0);
}

TEST_CASE("stamps of a read-only folder are kept in the user's cache") {
  if (::geteuid() != 0) FP_SKIP("only root can be nobody");
  const bool older = GENERATE(false, true);
  const TemporaryFolder dir;
  prepare_folder(dir, older);
  for (const fs::path& folder : {dir.path, dir / "out"}) fs::permissions(folder, fs::perms(0755));
  fs::create_directory(dir / "home");
  fs::permissions(dir / "home", fs::perms(0777));
  const Environment cache("XDG_CACHE_HOME", (dir / "home").string());
  const fp::test::Nobody nobody;
  CHECK(bytes_to_open(dir / "out") == bytes_of_files(dir / "out"));
  CHECK_FALSE(fs::exists(dir / "out/verified"));
  CHECK(bytes_to_open(dir / "out") == 0);
  struct stat info {};
  REQUIRE(::stat((stamp_places(dir / "out").at(1) / "verified").c_str(), &info) == 0);
  CHECK(info.st_uid == 65534);
  PreparedDataset(dir / "out", Split::validation, kChanged);
  CHECK(bytes_to_open(dir / "out") == 0);
}

TEST_CASE("stamps of other users are not trusted") {
  if (::geteuid() != 0) FP_SKIP("only root can give files away");
  const TemporaryFolder dir;
  prepare_folder(dir, false);
  bytes_to_open(dir / "out");
  REQUIRE(::chown((dir / "out/verified").c_str(), 65534, 65534) == 0);
  const uint64_t all = bytes_of_files(dir / "out");
  CHECK(bytes_to_open(dir / "out") == all);
  REQUIRE(::chown((dir / "out/verified").c_str(), 65534, 65534) == 0);
  REQUIRE(::chown((dir / "out/manifest.json").c_str(), 65534, 65534) == 0);
  CHECK(bytes_to_open(dir / "out") == 0);
}
