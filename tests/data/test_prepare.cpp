// data prepare: the files it writes, the held-out split, and failures that leave nothing behind.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "data/formats/prepared_dataset.h"
#include "data/prepare/hashing_file.h"
#include "data/support.h"
#include "io/filesystem.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

using Strings = std::vector<std::string>;

Strings documents_of(const std::filesystem::path& folder, Split split) {
  const PreparedDataset dataset(folder, split);
  Strings documents;
  for (uint64_t i = 0; i < dataset.documents(); ++i) {
    const auto [begin, end] = dataset.document(i);
    std::vector<int32_t> ids(end - begin);
    dataset.read(begin, ids);
    CHECK(ids.back() == dataset.tokenizer().eot());
    documents.push_back(dataset.tokenizer().decode(ids));
  }
  return documents;
}

// Returns the content of every file in the folder, by name.
std::map<std::string, std::string> content_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    content[entry.path().filename().string()] = read_file(entry.path());
  return content;
}

size_t entries_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("prepared text is read back exactly, with the last documents held out") {
  const TemporaryFolder dir;
  const Manifest m = prepare_lines(dir, "one\n\ntwo\xFF\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n", "out",
                                   [](PrepareOptions& o) { o.corpus.allow_bytes = true; });
  CHECK(documents_of(dir / "out", Split::train) ==
        Strings{"one", "two\xFF", "three", "four", "five", "six", "seven", "eight", "nine"});
  CHECK(documents_of(dir / "out", Split::validation) == Strings{"ten"});
  CHECK(m.empty_documents == 1);
  CHECK(m.train.documents == 9);
  CHECK(m.train.text_bytes == 37);
  CHECK(m.train.tokens == 37 + 9);
  CHECK(m.highest_id == 256);
  CHECK(m.token_bytes == 2);
  CHECK(m.sources.at(0).name == "text.txt");
  CHECK(entries_in(dir.path) == 2);  // text.txt and out
  const PreparedDataset train(dir / "out", Split::train);
  CHECK(train.bytes_per_token() == Approx(37.0 / 46.0));
}

TEST_CASE("documents may span shards") {
  const TemporaryFolder dir;
  const std::string text = numbered_lines(40);
  prepare_lines(dir, text, "whole");
  const Manifest m = prepare_lines(dir, text, "cut", [](PrepareOptions& o) { o.shard_tokens = 37; });
  CHECK(m.train.shards.size() == (m.train.tokens + 36) / 37);
  for (const Split split : {Split::train, Split::validation}) {
    CHECK(documents_of(dir / "cut", split) == documents_of(dir / "whole", split));
    const PreparedDataset a(dir / "cut", split), b(dir / "whole", split);
    std::vector<int32_t> x(a.tokens()), y(b.tokens());
    a.read(0, x);
    b.read(0, y);
    CHECK(x == y);
    for (size_t begin = 0; begin + 50 < x.size(); begin += 13) {
      std::vector<int32_t> part(50);
      a.read(begin, part);
      CHECK(std::equal(part.begin(), part.end(), x.begin() + static_cast<int64_t>(begin)));
    }
    CHECK_THROWS_AS(a.read(a.tokens() - 1, std::span(x).first(2)), InternalError);
  }
}

TEST_CASE("BPE tokens and four-byte shards are read back exactly") {
  const TemporaryFolder dir;
  const std::string text = numbered_lines(50);
  // An added token with id 70000 makes the vocabulary too large for two bytes.
  std::string json = trained_json(text, 270);
  const std::string far = R"({"id": 70000, "content": "<far>", "special": true}, )";
  json.insert(json.find("\"added_tokens\": [") + 17, far);
  write_text(dir / "far.json", json);
  write_text(dir / "near.json", trained_json(text, 270));
  for (const std::string name : {"near", "far"}) {
    const Manifest m = prepare_lines(dir, text + "x <far> y\n", name, [&](PrepareOptions& o) {
      o.tokenizer = (dir / (name + ".json")).string();
      o.validation_fraction = 0;
      o.encoding.parse_special = true;
      o.shard_tokens = 100;
    });
    CHECK(m.token_bytes == (name == "far" ? 4 : 2));
    CHECK(m.highest_id == (name == "far" ? 70000 : 269));
    CHECK(m.validation_split == "none");
    const Strings documents = documents_of(dir / name, Split::train);
    CHECK(documents.size() == 51);
    CHECK(documents[7] == "line 7 of the text");
    CHECK(documents[50] == (name == "far" ? "x  y" : "x <far> y"));
    CHECK(documents_of(dir / name, Split::validation).empty());
  }
}

TEST_CASE("special tokens written in the text stay text by default") {
  const TemporaryFolder dir;
  write_text(dir / "t.json", trained_json("aa aa aa", 258));
  const auto tokens_of = [&](const std::string& out, bool parse) {
    return prepare_lines(dir, "a<|endoftext|>b\nc\n", out,
                         [&](PrepareOptions& o) {
                           o.tokenizer = (dir / "t.json").string();
                           o.validation_fraction = 0.5;
                           o.encoding.parse_special = parse;
                         })
        .train.tokens;
  };
  CHECK(tokens_of("text", false) == 1 + 13 + 1 + 1);
  CHECK(tokens_of("token", true) == 1 + 1 + 1 + 1);
}

TEST_CASE("the hash split depends on each document's text alone") {
  const TemporaryFolder dir;
  const auto by_hash = [](PrepareOptions& o) {
    o.validation_split = "hash";
    o.validation_fraction = 0.2;
  };
  const std::string text = numbered_lines(500);
  const Manifest m = prepare_lines(dir, text, "a", by_hash);
  CHECK(m.validation.documents > 60);
  CHECK(m.validation.documents < 140);
  prepare_lines(dir, "something else first\n" + text + text, "b", by_hash);
  const auto as_set = [](const Strings& s) { return std::set<std::string>(s.begin(), s.end()); };
  auto held_out = as_set(documents_of(dir / "b", Split::validation));
  held_out.erase("something else first");
  CHECK(held_out == as_set(documents_of(dir / "a", Split::validation)));
}

TEST_CASE("training documents that duplicate held-out ones are left out") {
  const TemporaryFolder dir;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "text " + std::to_string(i * i % 97) + "\n";
  for (const std::string split : {"last", "hash"}) {
    const Manifest m = prepare_lines(dir, text, split, [&](PrepareOptions& o) {
      o.validation_split = split;
      o.drop_repeats = 1;
    });
    const Strings train = documents_of(dir / split, Split::train),
                  held_out = documents_of(dir / split, Split::validation);
    for (const std::string& document : held_out) CHECK(std::find(train.begin(), train.end(), document) == train.end());
    CHECK(train.size() + held_out.size() + m.duplicate_documents == 300);
    CHECK(m.duplicate_documents == (split == "last" ? 300 - 30 - train.size() : 0));
  }
}

TEST_CASE("a prepared folder does not depend on the number of threads or on compression") {
  const TemporaryFolder dir;
  std::mt19937 random(8);
  const std::string text = random_ascii(random, 4'000'000);
  write_text(dir / "text.txt", text);
  write_text(dir / "t.json", trained_json(text.substr(0, 10000), 300));
  PrepareOptions o;
  o.corpus.files = {dir / "text.txt"};
  o.corpus.documents = "blank-line";
  o.tokenizer = (dir / "t.json").string();
  o.out = dir / "one";
  set_threads(1);
  prepare(o);
  set_threads(3);
  o.out = dir / "three";
  prepare(o);
  set_threads(0);
  CHECK(content_of(dir / "three") == content_of(dir / "one"));
  write_text(dir / "text.txt.gz", gzip(text));
  o.corpus.files = {dir / "text.txt.gz"};
  o.out = dir / "gz";
  prepare(o);
  auto packed = content_of(dir / "gz"), plain = content_of(dir / "one");
  packed.erase("manifest.json");  // names its source
  plain.erase("manifest.json");
  CHECK(packed == plain);
}

TEST_CASE("an empty or indivisible corpus is refused and leaves nothing behind") {
  const TemporaryFolder dir;
  CHECK_THAT(message_of<DataError>([&] { prepare_lines(dir, "", "out"); }), Contains("no text"));
  CHECK_THAT(message_of<DataError>([&] { prepare_lines(dir, "\n\n\n", "out"); }), Contains("no text"));
  CHECK_THAT(message_of<DataError>([&] { prepare_lines(dir, "only\n", "out"); }), Contains("1 document, too few"));
  CHECK_THAT(message_of<DataError>(
                 [&] { prepare_lines(dir, "a\nb\n", "out", [](PrepareOptions& o) { o.validation_fraction = 0.9; }); }),
             Contains("too few to hold out"));
  CHECK_THAT(message_of<DataError>(
                 [&] { prepare_lines(dir, "a\na\na\n", "out", [](PrepareOptions& o) { o.drop_repeats = 1; }); }),
             Contains("none is left for the train split"));
  CHECK_THAT(message_of<DataError>(
                 [&] { prepare_lines(dir, "a\n", "out", [](PrepareOptions& o) { o.validation_split = "hash"; }); }),
             Contains("none is left for the validation split"));
  CHECK_THAT(message_of<DataError>(
                 [&] { prepare_lines(dir, "x", "out", [](PrepareOptions& o) { o.corpus.format = "jsonl"; }); }),
             Contains("text.txt:1: not JSON: column 1: "));
  CHECK(entries_in(dir.path) == 1);  // text.txt
  CHECK(prepare_lines(dir, "only\n", "out", [](PrepareOptions& o) { o.validation_fraction = 0; }).train.documents == 1);
}

TEST_CASE("bad prepare options are refused") {
  const TemporaryFolder dir;
  const auto refused = [&](auto change) { CHECK_THROWS_AS(prepare_lines(dir, "a\nb\n", "out", change), ConfigError); };
  refused([](PrepareOptions& o) { o.validation_fraction = 1.0; });
  refused([](PrepareOptions& o) { o.validation_fraction = -0.1; });
  refused([](PrepareOptions& o) { o.validation_fraction = std::nan(""); });
  refused([](PrepareOptions& o) { o.validation_split = "first"; });
  refused([](PrepareOptions& o) { o.shard_tokens = 0; });
  refused([](PrepareOptions& o) { o.corpus.documents = "page"; });
  CHECK(entries_in(dir.path) == 1);
}

TEST_CASE("an output that cannot be written is refused") {
  const TemporaryFolder dir;
  write_text(dir / "file", "");
  CHECK_THROWS_AS(prepare_lines(dir, "a\nb\n", "file/out"), DataError);
  CHECK_THROWS_AS(HashingFile(dir / "missing/x"), DataError);
  const auto fill = [] {
    HashingFile full("/dev/full");
    const std::vector<std::byte> block(1 << 20);
    full.write(block);
    full.close();
  };
  CHECK_THAT(message_of<DataError>(fill), Contains("/dev/full: cannot write"));
}

TEST_CASE("an existing output is kept unless it may be overwritten") {
  const TemporaryFolder dir;
  prepare_lines(dir, "a\nb\n", "out");
  CHECK_THAT(message_of<ConfigError>([&] { prepare_lines(dir, "c\nd\n", "out"); }), Contains("--overwrite"));
  CHECK(documents_of(dir / "out", Split::train) == Strings{"a"});
  const auto overwrite = [](PrepareOptions& o) { o.overwrite = true; };
  prepare_lines(dir, "c\nd\n", "out", overwrite);
  CHECK(documents_of(dir / "out", Split::train) == Strings{"c"});
  std::filesystem::create_directory(dir / "photos");
  CHECK_THROWS_AS(prepare_lines(dir, "c\nd\n", "photos", overwrite), ConfigError);
  CHECK(entries_in(dir.path) == 3);  // text.txt, out, photos
}

TEST_CASE("training documents that repeat held-out ones are dropped from --drop-repeats tokens on") {
  const TemporaryFolder dir;
  const std::string heading = "=head1 NAME\n", boilerplate(100, 'x');
  std::string text;
  for (int i = 0; i < 17; ++i) text += "line " + std::to_string(i) + "\n";
  text += heading + boilerplate + "\n" + heading + boilerplate + "\n";  // the last two lines are held out
  const auto left_out = [&](const std::string& out, uint64_t drop_repeats) {
    return prepare_lines(dir, heading + text, out, [&](PrepareOptions& o) { o.drop_repeats = drop_repeats; })
        .duplicate_documents;
  };
  CHECK(left_out("default", PrepareOptions().drop_repeats) == 1);
  CHECK(left_out("all", 1) == 3);
  CHECK(left_out("none", 0) == 0);
}

TEST_CASE("a single file is one document whose end is held out") {
  const TemporaryFolder dir;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Paragraph " + std::to_string(i) + " has a line\nand another.\n\n";
  write_text(dir / "book.txt", text);
  PrepareOptions o;
  o.corpus.files = {dir / "book.txt"};
  o.tokenizer = "bytes";
  o.out = dir / "out";
  InputReport report;
  const Manifest m = prepare(o, &report);
  CHECK(m.documents == "file");
  REQUIRE(report.divided);
  CHECK(report.divided->filename() == "book.txt");
  const Strings train = documents_of(dir / "out", Split::train),
                held_out = documents_of(dir / "out", Split::validation);
  REQUIRE(train.size() == 1);
  REQUIRE(held_out.size() == 1);
  CHECK(train[0] + held_out[0] == text);
  CHECK(held_out[0].starts_with("Paragraph 36 "));
  // Ten files are enough to hold out a whole one.
  o.corpus.files.assign(10, dir / "book.txt");
  o.drop_repeats = 0;
  o.out = dir / "ten";
  CHECK(prepare(o, &report).validation.documents == 1);
  CHECK_FALSE(report.divided);
  CHECK(documents_of(dir / "ten", Split::validation) == Strings{text});
}

TEST_CASE("files that are not text are refused by name, and named where a little of them is not text") {
  const TemporaryFolder dir;
  std::mt19937 random(3);
  write_text(dir / "good.txt", numbered_lines(100));
  write_text(dir / "nearly.txt", numbered_lines(100) + "na\xEFve\n");
  write_text(dir / "latin.txt",
             "\xC4rger \xFC"
             "ber \xD6l\n");
  write_text(dir / "random.txt", random_bytes(random, 1000));
  write_text(dir / "empty.txt", "");
  PrepareOptions o;
  o.tokenizer = "bytes";
  for (const std::string split : {"last", "hash"}) {
    o.validation_split = split;
    o.corpus.documents = "line";
    o.corpus.allow_bytes = false;
    o.out = dir / split;
    o.corpus.files = {dir / "good.txt", dir / "latin.txt", dir / "random.txt"};
    CHECK_THAT(message_of<DataError>([&] { prepare(o); }), Contains("2 input files are not text in UTF-8: ") &&
                                                               Contains("latin.txt: 3 of 13 bytes") &&
                                                               Contains("random.txt: ") && Contains("--allow-bytes"));
    CHECK_FALSE(std::filesystem::exists(dir / split));
    o.corpus.allow_bytes = true;
    InputReport report;
    o.corpus.files = {dir / "empty.txt", dir / "good.txt", dir / "nearly.txt", dir / "latin.txt"};
    prepare(o, &report);
    CHECK(report.empty_files == std::vector{dir / "empty.txt"});
    REQUIRE(report.not_text.size() == 2);
    CHECK_THAT(report.not_text[0], Contains("nearly.txt: 1 of "));
  }
}

TEST_CASE("the sources of a folder are told apart by their paths within it, wherever it lies") {
  const TemporaryFolder dir;
  std::filesystem::create_directories(dir / "docs/a");
  std::filesystem::create_directories(dir / "docs/b");
  for (const char* name : {"a/Simple.pm", "b/Simple.pm"}) write_text(dir / "docs" / name, numbered_lines(10));
  PrepareOptions o;
  o.corpus.files = {dir / "docs"};
  o.tokenizer = "bytes";
  o.out = dir / "out";
  const Manifest m = prepare(o);
  REQUIRE(m.sources.size() == 2);
  CHECK(m.sources[0].name == "a/Simple.pm");
  CHECK(m.sources[1].name == "b/Simple.pm");
}

TEST_CASE("JSON lines are documents whatever --documents says, and advice for them is to add lines") {
  const TemporaryFolder dir;
  write_text(dir / "t.jsonl", "{\"text\": \"one\"}\n");
  PrepareOptions o;
  o.corpus.files = {dir / "t.jsonl"};
  o.tokenizer = "bytes";
  o.out = dir / "out";
  CHECK_THAT(message_of<DataError>([&] { prepare(o); }),
             Contains("1 document") && Contains("add lines") && !Contains("blank-line"));
  write_text(dir / "t.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  CHECK(prepare(o).documents == "json-lines");
}
