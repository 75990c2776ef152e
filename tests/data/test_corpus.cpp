// Cutting text into documents, from plain, gzip, Zstandard and JSON lines files.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/corpus.h"
#include "data/support.h"

using namespace fp;
using namespace fp_test;
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
  const TempDir dir;
  write_text(dir / name, text);
  CorpusOptions options;
  options.files = {dir / name};
  options.documents = rule;
  return read_all(options);
}

}  // namespace

TEST_CASE("plain text is cut by the documents rule") {
  CHECK(cut("a\nb\n\nc", "file") == Strings{"a\nb\n\nc"});
  CHECK(cut("a\n", "file") == Strings{"a\n"});
  CHECK(cut("a\nb\r\n\nc", "line") == Strings{"a", "b", "", "c"});
  CHECK(cut("1\n2\n3\n4\n5\n", "lines:2") == Strings{"1\n2", "3\n4", "5"});
  CHECK(cut("\n\na\nb\n \t\n\nc\n", "blank-line") == Strings{"a\nb", "c"});
  CHECK(cut("intro\nCh 1\nx\nCh 2\n\ny\n", "start:^Ch \\d") == Strings{"intro", "Ch 1\nx", "Ch 2\n\ny"});
  CHECK(cut("a\nb\n", "start:^(?=b)") == Strings{"a", "b"});  // an empty match counts
  CHECK(cut("x\nÉt\xFF\ny\n", "start:^\\p{Lu}") == Strings{"x", "Ét\xFF\ny"});
  CHECK(cut("", "line").empty());
  CHECK(cut("", "file").empty());
}

TEST_CASE("a bad documents rule or format is refused") {
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

TEST_CASE("documents do not reach across files, whatever the batch size") {
  const TempDir dir;
  write_text(dir / "a.txt", "1\n2\n3");
  write_text(dir / "b.txt", "4\n5\n");
  CorpusOptions options;
  options.files = {dir / "a.txt", dir / "b.txt"};
  options.documents = "lines:2";
  for (const size_t bytes : {1, 3, 1000}) CHECK(read_all(options, bytes) == Strings{"1\n2", "3", "4\n5"});
}

TEST_CASE("lines and files longer than a block stay whole") {
  const std::string line(3'000'001, 'x');
  CHECK(cut(line + "\n" + line + "y\n", "line") == Strings{line, line + "y"});
  CHECK(cut(line + "\n" + line, "file") == Strings{line + "\n" + line});
}

TEST_CASE("JSON lines give their text field") {
  const std::string text = R"({"text": "a\n\u00e9", "n": 1})"
                           "\n\n"
                           R"({"n": 2, "text": ""})"
                           "\r\n"
                           R"({"text": "last"})";
  CHECK(cut(text, "line", "t.jsonl") == Strings{"a\n\u00e9", "", "last"});
  const TempDir dir;
  write_text(dir / "t.ndjson", R"({"body": "b"})");
  CorpusOptions options;
  options.files = {dir / "t.ndjson"};
  options.text_field = "body";
  CHECK(read_all(options) == Strings{"b"});
}

TEST_CASE("a malformed JSON line is named by file and line") {
  const auto error_of = [](const std::string& line) {
    return message_of<DataError>([&] { cut("{\"text\": \"fine\"}\n\n" + line + "\n", "line", "t.jsonl"); });
  };
  CHECK_THAT(error_of("{\"text\": \"x\""), Contains("t.jsonl:3: malformed JSON"));
  CHECK_THAT(error_of("not json"), Contains("t.jsonl:3: malformed JSON"));
  CHECK_THAT(error_of("{\"text\": \"\xFF\"}"), Contains("t.jsonl:3: malformed JSON"));
  CHECK_THAT(error_of("{\"text\": \"\\ud800\"}"), Contains("t.jsonl:3: malformed JSON"));
  CHECK_THAT(error_of("[1]"), Contains("t.jsonl:3: a JSON object is expected"));
  CHECK_THAT(error_of("{\"txt\": \"x\"}"), Contains("t.jsonl:3: the object has no field \"text\""));
  CHECK_THAT(error_of("{\"text\": 5}"), Contains("t.jsonl:3: field \"text\" is number"));
}

TEST_CASE("gzip and Zstandard files read like plain ones") {
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
