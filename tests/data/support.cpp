#include "data/support.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer_json.h"

namespace fp::test {

std::string gzip(const std::string& text) {
  z_stream z{};
  constexpr int kGzipHeader = 16;
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + kGzipHeader, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t n = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  REQUIRE(!ZSTD_isError(n));
  out.resize(n);
  return out;
}

std::string random_ascii(std::mt19937& random, size_t length) {
  static const std::vector<std::string> parts = {
      "the", "them", "then", "he",   "hell", "Hello", "don't", "we'll", "I'M", "'s", " ", "  ",   "\n",    "\n\n",
      "\t",  " \n ", "12",   "3456", ".",    "...",   ", ",    "?!",    "'",   "''", "_", "aaaa", "ababab"};
  std::string text;
  while (text.size() < length) text += parts[random() % parts.size()];
  return text;
}

std::string random_bytes(std::mt19937& random, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += static_cast<char>(static_cast<uint8_t>(random()));
  return text;
}

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + " of the text\n";
  return text;
}

int64_t count_targets(const fp::Batch& b) {
  return static_cast<int64_t>(b.targets.size()) - std::ranges::count(b.targets, fp::kIgnoredTarget);
}

std::string trained_json(const std::string& text, int32_t vocab) {
  const fp::Regex pattern(fp::kGpt2Pattern);
  fp::PieceSplitter splitter(&pattern);
  fp::WordCounts counts;
  fp::count_words(text, splitter, counts);
  fp::BpeTrainerOptions options;
  options.vocab_size = vocab;
  return fp::write_tokenizer_json(fp::vocabulary_of(fp::train_bpe(counts, options)));
}

}  // namespace fp::test
