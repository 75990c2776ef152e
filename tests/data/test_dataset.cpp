// A prepared folder that was truncated, altered or tampered with cannot be opened.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "data/formats/prepared_dataset.h"
#include "data/support.h"
#include "io/filesystem.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

// Returns the error of opening both splits; empty when they open.
std::string open_error(const std::filesystem::path& folder) {
  try {
    for (const Split split : {Split::train, Split::validation}) PreparedDataset(folder, split);
    return "";
  } catch (const DataError& e) {
    return e.what();
  }
}

std::vector<std::string> files_of(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("a tokenizer of another length than the manifest says is not read") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(120), "out");
  const uint64_t bytes = std::filesystem::file_size(dir / "out/tokenizer.json");
  std::filesystem::resize_file(dir / "out/tokenizer.json", uint64_t{1} << 30);  // sparse
  CHECK_THAT(open_error(dir / "out"),
             Contains(fmt::format(
                 "tokenizer.json: truncated or altered: 1073741824 bytes, but the manifest says {}; copy", bytes)));
}

TEST_CASE("every truncation, extension and bit flip of every file is detected and the file named") {
  const TemporaryFolder dir;
  const std::string text = numbered_lines(120);
  write_text(dir / "t.json", trained_json(text, 270));
  prepare_lines(dir, text, "out", [&](PrepareOptions& o) {
    o.tokenizer = (dir / "t.json").string();
    o.shard_tokens = 300;
  });
  REQUIRE(open_error(dir / "out").empty());
  const auto files = files_of(dir / "out");
  REQUIRE(files.size() > 6);
  std::mt19937 random(1);
  set_threads(1);  // a thousand tiny folders: starting threads would take longer than checking
  for (const std::string& name : files) {
    const auto path = dir / "out" / name;
    const std::string good = read_file(path);
    int missed = 0, unnamed = 0;
    const auto expect_error = [&](const std::string& content) {
      write_text(path, content);
      const std::string error = open_error(dir / "out");
      missed += error.empty() ? 1 : 0;
      unnamed += error.find(name) == std::string::npos ? 1 : 0;
    };
    for (int trial = 0; trial < 30; ++trial) {
      expect_error(good.substr(0, random() % good.size()));
      std::string flipped = good;
      flipped[random() % good.size()] ^= static_cast<char>(1 << random() % 8);
      expect_error(flipped);
    }
    for (const std::string& end : {std::string(1, '\0'), std::string("\n"), std::string("x")}) expect_error(good + end);
    for (const size_t at : {size_t{0}, good.size() - 1}) {
      std::string flipped = good;
      flipped[at] ^= 1;
      expect_error(flipped);
    }
    INFO(name);
    CHECK(missed == 0);
    CHECK(unnamed == 0);
    std::filesystem::remove(path);
    CHECK_FALSE(open_error(dir / "out").empty());
    write_text(path, good);
  }
  set_threads(0);
  CHECK(open_error(dir / "out").empty());
}

TEST_CASE("two exchanged files are detected") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(100), "out", [](PrepareOptions& o) { o.shard_tokens = 200; });
  std::filesystem::rename(dir / "out/train-00000.tokens", dir / "swap");
  std::filesystem::rename(dir / "out/train-00001.tokens", dir / "out/train-00000.tokens");
  std::filesystem::rename(dir / "swap", dir / "out/train-00001.tokens");
  CHECK_THAT(open_error(dir / "out"), Contains("train-00000.tokens: altered"));
}

TEST_CASE("a rewritten manifest with a right hash that does not match its files is refused") {
  const TemporaryFolder dir;
  const Manifest good = prepare_lines(dir, numbered_lines(50), "out", [](PrepareOptions& o) { o.shard_tokens = 200; });
  const auto error_with = [&](auto change) {
    Manifest m = good;
    change(m);
    write_text(dir / "out/manifest.json", serialize(m));
    return open_error(dir / "out");
  };
  CHECK(error_with([](Manifest&) {}).empty());
  CHECK_THAT(error_with([](Manifest& m) { m.highest_id = 100; }), Contains("holds token id 256"));
  CHECK_THAT(error_with([](Manifest& m) { m.highest_id = 1000; }), Contains("beyond the vocabulary"));
  CHECK_THAT(error_with([](Manifest& m) { m.vocab_size = 300; }), Contains("not the tokenizer's"));
  CHECK_THAT(error_with([](Manifest& m) { m.eot = 0; }), Contains("not the tokenizer's"));
  CHECK_THAT(error_with([](Manifest& m) { m.token_bytes = 3; }), Contains("token_bytes is 3"));
  CHECK_THAT(error_with([](Manifest& m) { m.token_bytes = 4; }), Contains("its own counts need"));
  CHECK_THAT(error_with([](Manifest& m) { m.shard_tokens = 0; }), Contains("shard_tokens is 0"));
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  CHECK_THAT(error_with([](Manifest& m) { m.train.documents = kMost; }), Contains("a count of 18446744073709551615"));
  CHECK_THAT(error_with([](Manifest& m) { m.train.tokens = m.shard_tokens = kMost / 2 + 1; }),
             Contains("is more than"));
  CHECK_THAT(error_with([](Manifest& m) { m.train.tokens += 1000; }), Contains("shards of the train split"));
  CHECK_THAT(error_with([](Manifest& m) { m.train.tokens -= 1; }), Contains("its own counts need"));
  CHECK_THAT(error_with([](Manifest& m) { m.train.documents += 1; }), Contains("its own counts need"));
  CHECK_THAT(error_with([](Manifest& m) { m.train.shards[0].name = "../x"; }), Contains("not the name of a file"));
  CHECK_THAT(error_with([](Manifest& m) { m.train.index = m.validation.index; }), Contains("validation.documents"));
}

TEST_CASE("a folder without a manifest or of another version is refused") {
  const TemporaryFolder dir;
  CHECK_THAT(open_error(dir.path), Contains("not a folder made by `fptrain data prepare`"));
  CHECK_FALSE(open_error(dir / "missing").empty());
  for (const std::string manifest :
       {"", "[]", "{}", "{\"format\": \"other\"}", "null", "{\"format\": \"fptrain-tokens\"}"}) {
    write_text(dir / "manifest.json", manifest);
    CHECK_THAT(open_error(dir.path), Contains("manifest.json"));
  }
  write_text(dir / "manifest.json", "{\"format\": \"fptrain-tokens\", \"version\": 4}");
  CHECK_THAT(open_error(dir.path), Contains("version 4 is not supported"));
}
