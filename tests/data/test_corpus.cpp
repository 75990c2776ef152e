// Splitting text into documents, from plain, gzip, Zstandard and JSON lines files.
#include <catch2/catch.hpp>
#include <cctype>

#include "base/error.h"
#include "data/support.h"
#include "data/text/corpus.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

using Strings = std::vector<std::string>;

Strings read_all(const CorpusOptions& options, size_t batch_bytes = 1) {
  CorpusReader reader(options);
  DocumentBatch batch;
  Strings documents;
  std::string scratch;
  while (reader.next(batch_bytes, batch))
    for (size_t i = 0; i < batch.size(); ++i) documents.emplace_back(batch.text(i, scratch));
  CHECK(reader.position() == reader.total());
  return documents;
}

Strings cut(const std::string& text, const std::string& rule, const std::string& name = "text.txt") {
  const TemporaryFolder dir;
  write_text(dir / name, text);
  CorpusOptions options;
  options.files = {dir / name};
  options.documents = rule;
  return read_all(options);
}

}  // namespace

TEST_CASE("plain text is split by the documents rule") {
  CHECK(cut("a\nb\n\nc", "file") == Strings{"a\nb\n\nc"});
  CHECK(cut("a\n", "file") == Strings{"a\n"});
  CHECK(cut("\n \n", "file") == Strings{""});
  CHECK(cut("a\nb\r\n\nc", "line") == Strings{"a", "b", "", "c"});
  CHECK(cut("1\n2\n3\n4\n5\n", "lines:2") == Strings{"1\n2", "3\n4", "5"});
  CHECK(cut("\n\na\nb\n \t\n\nc\n", "blank-line") == Strings{"a\nb", "c"});
  CHECK(cut("intro\nCh 1\nx\nCh 2\n\ny\n", "start:^Ch \\d") == Strings{"intro", "Ch 1\nx", "Ch 2\n\ny"});
  CHECK(cut("a\nb\n", "start:^(?=b)") == Strings{"a", "b"});  // an empty match counts
  CHECK(cut("x\nÉt\xFF\ny\n", "start:^\\p{Lu}") == Strings{"x", "Ét\xFF\ny"});
  CHECK(cut("", "line").empty());
  CHECK(cut("", "file").empty());
}

TEST_CASE("an invalid documents rule or format is refused") {
  for (const std::string rule :
       {"", "lines", "lines:", "lines:0", "lines:2x", "lines:-1", "line:2", "start:", "start", "word"})
    CHECK_THROWS_AS(DocumentRule(rule), ConfigError);
  CHECK_THAT(message_of<ConfigError>([] { DocumentRule("start:a(b"); }), Contains("a(b"));
  CHECK_THROWS_AS(cut("x", "line", "text.parquet"), ConfigError);
  CHECK(cut("x", "line", "TEXT") == Strings{"x"});
  CorpusOptions options;
  CHECK_THROWS_AS(CorpusReader(options), ConfigError);
  options.files = {"/nowhere/text.txt"};
  CHECK_THAT(message_of<DataError>([&] { CorpusReader{options}; }), Contains("/nowhere/text.txt: no such file"));
  options.files = {"/"};
  options.format = "text";
  CHECK_THAT(message_of<DataError>([&] { CorpusReader{options}; }), Contains("not a regular file"));
  options.format = "csv";
  CHECK_THROWS_AS(CorpusReader(options), ConfigError);
}

TEST_CASE("documents never span files, whatever the batch size") {
  const TemporaryFolder dir;
  write_text(dir / "a.txt", "1\n2\n3");
  write_text(dir / "b.txt", "4\n5\n");
  CorpusOptions options;
  options.files = {dir / "a.txt", dir / "b.txt"};
  options.documents = "lines:2";
  for (const size_t bytes : {1, 3, 1000}) CHECK(read_all(options, bytes) == Strings{"1\n2", "3", "4\n5"});
}

TEST_CASE("lines and files longer than a block are read whole") {
  const std::string line(3'000'001, 'x');
  CHECK(cut(line + "\n" + line + "y\n", "line") == Strings{line, line + "y"});
  CHECK(cut(line + "\n" + line, "file") == Strings{line + "\n" + line});
}

TEST_CASE("the text field of JSON lines is read") {
  const std::string text = R"({"text": "a\n\u00e9", "n": 1})"
                           "\n\n"
                           R"({"n": 2, "text": ""})"
                           "\r\n"
                           R"({"text": "last"})";
  CHECK(cut(text, "line", "t.jsonl") == Strings{"a\n\u00e9", "", "last"});
  const TemporaryFolder dir;
  write_text(dir / "t.ndjson", R"({"body": "b"})");
  CorpusOptions options;
  options.files = {dir / "t.ndjson"};
  options.text_field = "body";
  CHECK(read_all(options) == Strings{"b"});
}

TEST_CASE("a malformed JSON line is refused with file and line") {
  const auto error_of = [](const std::string& line) {
    return message_of<DataError>([&] { cut("{\"text\": \"fine\"}\n\n" + line + "\n", "line", "t.jsonl"); });
  };
  CHECK_THAT(error_of("{\"text\": \"x\""), Contains("t.jsonl:3: not JSON: column "));
  CHECK_THAT(error_of("not json"), Contains("t.jsonl:3: not JSON: column "));
  CHECK_THAT(error_of("{\"text\": \"\xFF\"}"), Contains("t.jsonl:3: not JSON: column "));
  CHECK_THAT(error_of("{\"text\": \"\\ud800\"}"), Contains("t.jsonl:3: not JSON: column "));
  CHECK_THAT(error_of("[1]"), Contains("t.jsonl:3: a JSON object is expected"));
  CHECK_THAT(error_of("{\"txt\": \"x\"}"), Contains("t.jsonl:3: the object has no field \"text\""));
  CHECK_THAT(error_of("{\"text\": 5}"), Contains("t.jsonl:3: field \"text\" is number"));
}

TEST_CASE("gzip and Zstandard files are read like plain ones") {
  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(random()) + (i % 7 == 0 ? "\n\n" : "\n");
  const Strings plain = cut(text, "blank-line");
  CHECK(cut(gzip(text), "blank-line", "t.txt.gz") == plain);
  CHECK(cut(zstd(text), "blank-line", "t.txt.zst") == plain);
  // Several members or frames in one file.
  const size_t half = text.size() / 2;
  CHECK(cut(gzip(text.substr(0, half)) + gzip(text.substr(half)), "blank-line", "t.gz") == plain);
  CHECK(cut(zstd(text.substr(0, half)) + zstd(text.substr(half)), "blank-line", "t.zst") == plain);
  CHECK(cut(gzip("{\"text\": \"x\"}"), "line", "t.jsonl.gz") == Strings{"x"});
  CHECK(cut("", "line", "t.gz").empty());
}

TEST_CASE("truncated or damaged compressed files are refused") {
  std::mt19937 random(2);
  const std::string text = random_ascii(random, 3000);
  for (const auto& [name, packed] : {std::pair{"t.gz", gzip(text)}, std::pair{"t.zst", zstd(text)}}) {
    for (size_t n = 1; n < packed.size(); n += 1 + packed.size() / 40)
      CHECK_THROWS_AS(cut(packed.substr(0, n), "line", name), DataError);
    CHECK_THROWS_AS(cut(text, "line", name), DataError);
  }
  std::string damaged = gzip(text);
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  CHECK_THAT(message_of<DataError>([&] { cut(damaged, "line", "t.gz"); }), Contains("t.gz: truncated or damaged"));
}

namespace {

CorpusOptions limited(const std::filesystem::path& file, uint64_t max_document, const std::string& rule = "line") {
  CorpusOptions options;
  options.files = {file};
  options.documents = rule;
  options.max_document = max_document;
  return options;
}

Strings cut_limited(const std::string& text, const std::string& rule, uint64_t max_document,
                    const std::string& name = "text.txt") {
  const TemporaryFolder dir;
  write_text(dir / name, text);
  return read_all(limited(dir / name, max_document, rule));
}

// Returns a Zstandard frame of `blocks` times 128 KiB of zeros, four bytes each.
std::string zstd_of_zeros(int blocks) {
  std::string frame("\x28\xB5\x2F\xFD\x00\x38", 6);  // magic number; no checksum; a window of 128 KiB
  for (int i = 0; i < blocks; ++i) frame += std::string(i + 1 == blocks ? "\x03\x00\x10\x00" : "\x02\x00\x10\x00", 4);
  return frame;
}

}  // namespace

TEST_CASE("a document may have exactly --max-document bytes and not one more") {
  const std::string x(1000, 'x'), json = "{\"text\": \"" + std::string(988, 'x') + "\"}";
  for (const char* end : {"", "\n", "\r\n"}) {
    CHECK(cut_limited("a\n" + x + end, "line", 1000) == Strings{"a", x});
    CHECK(cut_limited(json + end, "line", 1000, "t.jsonl") == Strings{std::string(988, 'x')});
  }
  CHECK(cut_limited(x.substr(1) + "\n", "file", 1000).size() == 1);
  CHECK(cut_limited(x.substr(500) + "\n" + x.substr(501) + "\n", "lines:2", 1000).size() == 1);
  const auto refused = [&](const std::string& text, const std::string& rule, const std::string& name,
                           const std::string& message) {
    INFO(rule);
    CHECK_THAT(message_of<DataError>([&] { cut_limited(text, rule, 1000, name); }), Contains(message));
  };
  refused("a\n" + x + "x\n", "line", "t.txt",
          "t.txt:2: this line has more than 1000 bytes; legal: up to --max-document");
  refused("a\n\n" + x + "x", "blank-line", "t.txt", "t.txt:3: this line has more than 1000 bytes");
  refused("a\n" + std::string(1001, ' ') + "\nb", "blank-line", "t.txt", "t.txt:2: this line");
  refused("\na\n" + x.substr(2) + "\nb\n", "blank-line", "t.txt", "t.txt:2: the document that begins here");
  refused("a\nCh 1\n" + x.substr(4) + "\n", "start:^Ch", "t.txt", "t.txt:2: the document that begins here");
  refused(x + "x", "file", "t.txt", "t.txt:1: this file has more than 1000 bytes");
  refused("{\"text\": \"\"}\n\n" + json + " \n", "line", "t.jsonl", "t.jsonl:3: this line has more than 1000 bytes");
  refused("{\"text\": \"\"}\n" + std::string(5000, ' '), "line", "t.jsonl", "t.jsonl:2: this line");
}

TEST_CASE("a file without line ends is refused after its first megabytes") {
  const TemporaryFolder dir;
  for (const std::string& name : {std::string("zeros.txt"), std::string("zeros.jsonl")}) {
    write_text(dir / name, "");
    std::filesystem::resize_file(dir / name, uintmax_t{1} << 40);
    for (const char* rule : {"line", "blank-line", "file"}) {
      CorpusReader reader(limited(dir / name, uint64_t{4} << 20, rule));
      DocumentBatch batch;
      CHECK_THAT(message_of<DataError>([&] { reader.next(1, batch); }),
                 Contains(name + ":1: this ") && Contains("has more than 4194304 bytes"));
      CHECK(reader.position() <= uint64_t{16} << 20);
    }
  }
}

TEST_CASE("decompression bombs are refused like large plain files") {
  const TemporaryFolder dir;
  // 6 GB in 183 KB, and 2 GB in 2 MB.
  const std::string zeros = zstd_of_zeros(45'776), member = gzip(std::string(1 << 20, '\0'));
  std::string members;
  for (int i = 0; i < 2000; ++i) members += member;
  for (const auto& [name, content] : {std::pair<std::string, const std::string&>{"t.jsonl.zst", zeros},
                                      {"t.txt.zst", zeros},
                                      {"t.jsonl.gz", members},
                                      {"t.txt.gz", members}}) {
    write_text(dir / name, content);
    CHECK_THAT(message_of<DataError>([&] { read_all(limited(dir / name, 1 << 20)); }),
               Contains(name + ":1: this line has more than 1048576 bytes"));
  }
  CHECK(cut_limited(zstd_of_zeros(2), "line", 1 << 20, "t.txt.zst") == Strings{std::string(1 << 18, '\0')});
}

TEST_CASE("a Zstandard file with a window of more than 128 MiB is refused") {
  const auto with_window = [](char window) {
    return std::string("\x28\xB5\x2F\xFD\x00", 5) + window +
           std::string(
               "\x11\x00\x00"
               "a\n",
               5);
  };
  CHECK(cut_limited(with_window('\x88'), "line", 1000, "t.txt.zst") == Strings{"a"});  // 2^27 bytes
  CHECK_THAT(message_of<DataError>([&] { cut_limited(with_window('\xA8'), "line", 1000, "t.txt.zst"); }),
             Contains("a window of more than 128 MiB"));
}

TEST_CASE("the number of empty documents in a batch is bounded") {
  const TemporaryFolder dir;
  write_text(dir / "t.txt", std::string(100'000, '\n'));
  CorpusReader reader(limited(dir / "t.txt", 1000));
  DocumentBatch batch;
  uint64_t documents = 0;
  while (reader.next(4096, batch)) {
    CHECK(batch.size() <= 4096);
    CHECK(batch.memory() < 8192);
    documents += batch.size();
  }
  CHECK(documents == 100'000);
}

TEST_CASE("a text is divided behind a blank line, a line end or a space near the place asked for") {
  const std::string text = std::string(50, 'a') + "\n\n" + std::string(50, 'b');
  CHECK(cut_position(text, 54) == 52);
  CHECK(cut_position(text, 80) == 80);  // the blank line is too far away
  CHECK(cut_position(std::string(50, 'a') + "\n" + std::string(50, 'b'), 54) == 51);
  CHECK(cut_position(std::string(50, 'a') + " " + std::string(50, 'b'), 54) == 51);
  CHECK(cut_position("\u00e9\u00e9\u00e9", 3) == 2);  // never inside a character
  CHECK(cut_position("ab", 9) == 1);
  CHECK(cut_position("ab", 0) == 1);
  CHECK(cut_position("a\n\n", 3) == 2);  // the second part is not empty
}

TEST_CASE("a large file is read in parts that no word crosses") {
  const TemporaryFolder dir;
  std::mt19937 random(4);
  const std::string text = random_ascii(random, 5'000'000);
  write_text(dir / "t.txt", text);
  CorpusOptions options;
  options.files = {dir / "t.txt"};
  options.part_bytes = uint64_t{1} << 20;
  const Strings parts = read_all(options);
  CHECK(parts.size() > 2);
  std::string joined;
  for (const std::string& part : parts) {
    CHECK(part.size() < 3u << 20);
    if (!joined.empty()) CHECK((std::isspace(joined.back()) == 0 && std::isspace(part.front()) != 0));
    joined += part;
  }
  CHECK(joined == text);
}
