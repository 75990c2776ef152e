// Helpers of the data tests: temporary folders, small corpora, tokenizers that need no file.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/prepare.h"
#include "data/sampling/batch.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"

namespace fp::test {

std::string gzip(const std::string& text);
std::string zstd(const std::string& text);

// Random text that exercises every branch of GPT-2's pattern: words, numbers, punctuation, contractions, runs of white
// space.
std::string random_ascii(std::mt19937& random, size_t length);
std::string random_bytes(std::mt19937& random, size_t length);
// Returns `count` different lines, each with a line end.
std::string numbered_lines(int count);

// Returns a tokenizer.json trained on `text`.
std::string trained_json(const std::string& text, int32_t vocab);

// Prepares `text` with the byte tokenizer, one document per line; `change` may modify the options.
template <class Change>
fp::Manifest prepare_lines(const TemporaryFolder& dir, const std::string& text, const std::string& out, Change change) {
  fp::PrepareOptions options;
  write_text(dir / "text.txt", text);
  options.corpus.files = {dir / "text.txt"};
  options.corpus.documents = "line";
  options.tokenizer = "bytes";
  options.out = dir / out;
  change(options);
  return fp::prepare(options);
}
inline fp::Manifest prepare_lines(const TemporaryFolder& dir, const std::string& text, const std::string& out) {
  return prepare_lines(dir, text, out, [](fp::PrepareOptions&) {});
}

// Returns the number of targets that are not ignored.
int64_t count_targets(const fp::Batch&);

// Returns the message of the E that f throws; fails the test when it throws none.
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

}  // namespace fp::test
