// Helpers of the data tests: temporary folders, small corpora, tokenizers that need no file.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare.h"
#include "data/tokenizer.h"

namespace fp_test {

// A fresh folder that is removed at the end of the scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_text(const std::filesystem::path& path, std::string_view text);
std::string gzip(const std::string& text);
std::string zstd(const std::string& text);

// Text that exercises every branch of GPT-2's pattern: words, numbers, punctuation, contractions, runs of white space.
std::string random_ascii(std::mt19937& random, size_t length);
std::string random_bytes(std::mt19937& random, size_t length);
// `count` different lines, each ended by a line end.
std::string numbered_lines(int count);

// A tokenizer.json learned from `text`.
std::string trained_json(const std::string& text, int32_t vocab);

// Prepared from `text` with the byte tokenizer, a document per line; `change` may alter the options.
template <class Change>
fp::Manifest prepare_lines(const TempDir& dir, const std::string& text, const std::string& out, Change change) {
  fp::PrepareOptions options;
  write_text(dir / "text.txt", text);
  options.corpus.files = {dir / "text.txt"};
  options.corpus.documents = "line";
  options.tokenizer = "bytes";
  options.out = dir / out;
  change(options);
  return fp::prepare(options);
}
inline fp::Manifest prepare_lines(const TempDir& dir, const std::string& text, const std::string& out) {
  return prepare_lines(dir, text, out, [](fp::PrepareOptions&) {});
}

// The message of the E that f throws; fails the test when it throws none.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  FAIL("no error was thrown");
  return "";
}

}  // namespace fp_test
