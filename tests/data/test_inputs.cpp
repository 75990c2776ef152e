// Input files: folders, lists of files, and what files are by their names and content.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "base/error.h"
#include "data/support.h"
#include "data/text/byte_source.h"
#include "data/text/inputs.h"
#include "io/readable_file.h"
#include "io/retry.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_of(const std::vector<fs::path>& paths, const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.lexically_relative(folder).string());
  return names;
}

}  // namespace

TEST_CASE("text on a failing disk is read again, and is not called damaged") {
  const TemporaryFolder dir;
  write_text(dir / "plain.txt", "some text");
  write_text(dir / "packed.zst", zstd("some text"));
  int failures = 0;
  set_retry_wait([](std::chrono::milliseconds) {});
  set_read_call([&](int descriptor, void* to, size_t bytes, off_t at) -> ssize_t {
    if (failures-- <= 0) return ::pread(descriptor, to, bytes, at);
    errno = ESTALE;
    return -1;
  });
  for (const char* name : {"plain.txt", "packed.zst"}) {
    std::string text(9, '?');
    failures = 3;
    CHECK(open_source(dir / name)->read(text) == 9);
    CHECK(text == "some text");
    failures = 1'000'000;
    CHECK_THROWS_AS(open_source(dir / name)->read(text), InfrastructureError);
  }
  set_read_call({});
  set_retry_wait({});
}

TEST_CASE("a folder stands for the text files in it and in its folders, by name") {
  const TemporaryFolder dir;
  for (const char* folder : {"in/b", "in/.git", "in/a"}) fs::create_directories(dir / folder);
  write_text(dir / "in/z.txt", "z");
  write_text(dir / "in/a/m.pm", "package M;");
  write_text(dir / "in/a/page.html", "<p>\xC4</p>, Latin-1");
  write_text(dir / "in/b/lines.jsonl", "{}");
  write_text(dir / "in/b/packed.txt.gz", gzip("text"));
  write_text(dir / "in/logo.png", std::string("\x89PNG\0\0", 6));
  write_text(dir / "in/table.csv", "a,b\n");
  write_text(dir / "in/.git/config", "x");
  fs::create_symlink("a", dir / "in/link");
  const Inputs found = find_inputs({dir / "in", dir / "in/table.csv"}, "auto");
  CHECK(names_of(found.files, dir / "in") ==
        std::vector<std::string>{"a/m.pm", "a/page.html", "b/lines.jsonl", "b/packed.txt.gz", "z.txt", "table.csv"});
  std::vector<std::string> skipped;
  for (const SkippedInput& s : found.skipped)
    skipped.push_back(s.path.filename().string() + ": " + s.reason.substr(0, 6));
  CHECK(skipped == std::vector<std::string>{".git: hidden", "link: links ", "logo.png: files ", "table.csv: tables"});
  CHECK(find_inputs({dir / "in"}, "text").files.size() == 6);  // with the table
}

TEST_CASE("a folder without text and columnar files are refused with advice") {
  const TemporaryFolder dir;
  fs::create_directories(dir / "in");
  CHECK_THAT(message_of<ConfigError>([&] { find_inputs({dir / "in"}, "auto"); }),
             Contains("no text file in this folder"));
  write_text(dir / "in/logo.png", std::string("\0", 1));
  CHECK_THAT(message_of<ConfigError>([&] { find_inputs({dir / "in"}, "auto"); }), Contains("logo.png"));
  write_text(dir / "in/train.parquet", "PAR1");
  CHECK_THAT(message_of<ConfigError>([&] { find_inputs({dir / "in"}, "auto"); }),
             Contains("train.parquet: .parquet files are not read; convert it to JSON lines first, with DuckDB"));
}

TEST_CASE("names say whether a file is text or JSON lines") {
  for (const char* name : {"a.txt", "a.pm", "a.py", "a.html", "README", "a.xml.gz"})
    CHECK_FALSE(is_json_lines(name, "auto"));
  for (const char* name : {"a.jsonl", "a.ndjson.zst"}) CHECK(is_json_lines(name, "auto"));
  CHECK(is_json_lines("a.json", "jsonl"));
  CHECK_FALSE(is_json_lines("a.csv", "text"));
  CHECK_THAT(message_of<ConfigError>([] { is_json_lines("a.csv.gz", "auto"); }),
             Contains("a.csv.gz: '.csv' does not say where the text is"));
  CHECK_THAT(message_of<ConfigError>([] { is_json_lines("a.txt", "csv"); }), Contains("auto, text, jsonl"));
}

TEST_CASE("a list of files has one path per line") {
  const TemporaryFolder dir;
  write_text(dir / "list", "a b.txt\r\n\n/c.txt");
  CHECK(read_file_list((dir / "list").string()) == std::vector<fs::path>{"a b.txt", "/c.txt"});
  write_text(dir / "list", "\n");
  CHECK_THAT(message_of<DataError>([&] { read_file_list((dir / "list").string()); }), Contains("names no file"));
  CHECK_THROWS_AS(read_file_list((dir / "absent").string()), DataError);
}

TEST_CASE("short names leave out the folders that all files share") {
  using Names = std::vector<std::string>;
  CHECK(short_names({"/x/y/a.txt"}) == Names{"a.txt"});
  CHECK(short_names({"/x/y/a.txt", "/x/y/b.txt"}) == Names{"a.txt", "b.txt"});
  CHECK(short_names({"/x/y/a.txt", "/x/z/../w/a.txt", "/x/b.txt"}) == Names{"y/a.txt", "w/a.txt", "b.txt"});
  CHECK(short_names({"/a.txt", "/x/a.txt"}) == Names{"a.txt", "x/a.txt"});
}

TEST_CASE("ill-formed UTF-8 and NUL are not text") {
  CHECK(bytes_not_text("na\u00efve\n") == 0);
  CHECK(bytes_not_text("na\xEFve \xFF\xFE") == 3);
  CHECK(bytes_not_text(std::string_view("a\0b\0", 4)) == 2);
}
