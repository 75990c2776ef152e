// BPE training, against a result derived by hand and a naive implementation of the algorithm.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "data/prepare/train_tokenizer.h"
#include "data/support.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/byte_alphabet.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> merges_of(const TrainedBpe& d) {
  std::vector<std::string> merges;
  for (const Merge& m : d.merges)
    merges.push_back(d.tokens[static_cast<size_t>(m.pair.first)] + "|" + d.tokens[static_cast<size_t>(m.pair.second)]);
  return merges;
}

TrainedBpe train(const WordCounts& words, int32_t vocab, uint64_t min_frequency = 1) {
  BpeTrainerOptions options;
  options.vocab_size = vocab;
  options.min_frequency = min_frequency;
  return train_bpe(words, options);
}

// Recounts all pairs of all words before each merge.
std::vector<TokenPair> naive_merges(const WordCounts& words, size_t count) {
  const auto order = ByteAlphabet().in_order();
  std::map<std::string, int32_t> ids;
  std::vector<std::string> tokens;
  for (const uint8_t b : order) {
    ids[std::string(1, static_cast<char>(b))] = static_cast<int32_t>(tokens.size());
    tokens.emplace_back(1, static_cast<char>(b));
  }
  std::vector<std::pair<std::vector<int32_t>, uint64_t>> split;
  for (const auto& [word, n] : words) {
    split.push_back({{}, n});
    for (const char c : word) split.back().first.push_back(ids.at(std::string(1, c)));
  }
  std::vector<TokenPair> merges;
  while (merges.size() < count) {
    std::map<TokenPair, uint64_t> counts;
    for (const auto& [word, n] : split)
      for (size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += n;
    TokenPair best{};
    uint64_t most = 0;
    for (const auto& [pair, n] : counts)
      if (n > most) best = pair, most = n;
    const std::string joined = tokens[static_cast<size_t>(best.first)] + tokens[static_cast<size_t>(best.second)];
    const auto [it, fresh] = ids.emplace(joined, static_cast<int32_t>(tokens.size()));
    if (fresh) tokens.push_back(joined);
    // Two merges can give the same token, and so bring back a pair that was merged before: it is merged once more.
    if (std::find(merges.begin(), merges.end(), best) == merges.end()) merges.push_back(best);
    for (auto& [word, n] : split)
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (TokenPair{word[i], word[i + 1]} == best) {
          word[i] = it->second;
          word.erase(word.begin() + static_cast<int64_t>(i) + 1);
        }
  }
  return merges;
}

}  // namespace

TEST_CASE("a small vocabulary equals the one derived by hand") {
  // l+o: 7, o+w: 7 (tie: 'l' comes before 'o'), then lo+w: 7, e+r and w+e: 4 ...
  const WordCounts words = {{"low", 3}, {"lower", 4}, {"new", 2}};
  const TrainedBpe d = train(words, 257 + 5);
  // lo+w 7; then e+r 4, low+e 4: (e,r) has the lower left id; then low+er 4; then e+w 2, n+e 2.
  CHECK(merges_of(d) == std::vector<std::string>{"l|o", "lo|w", "e|r", "low|er", "e|w"});
  CHECK(d.tokens.size() == 261);
  CHECK(d.tokens[260] == "ew");
  const Gpt2Vocabulary vocabulary = vocabulary_of(d);
  CHECK(vocabulary.end_of_text.second == 261);
  CHECK(vocabulary.end_of_text.first == "<|endoftext|>");
  CHECK(vocabulary.vocab.back() == vocabulary.end_of_text);
}

TEST_CASE("overlapping pairs merge from the left") {
  const TrainedBpe d = train({{"aaaaa", 10}}, 257 + 3);
  // aaaaa -> aa aa a -> aa+aa and aa+a tie at 10; (aa,a)'s left id equals, its right id is lower? No: 'a' is an older
  // id.
  CHECK(merges_of(d) == std::vector<std::string>{"a|a", "aa|a", "aa|aaa"});
}

TEST_CASE("training equals the naive algorithm on random words") {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    WordCounts words;
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (size_t n = 1 + random() % 40; n > 0; --n) word += static_cast<char>('a' + random() % (1 + seed % 4));
      words[word] += 1 + random() % 5;
    }
    constexpr int32_t kMerges = 12;
    const TrainedBpe d = train(words, 257 + kMerges);
    const auto expected = naive_merges(words, d.merges.size());
    for (size_t i = 0; i < d.merges.size(); ++i) CHECK(d.merges[i].pair == expected[i]);
  }
}

TEST_CASE("a vocabulary larger than the text supports is refused") {
  CHECK_THAT(message_of<DataError>([] { train({{"ab", 5}}, 300); }), Contains("--vocab 258 or less"));
  CHECK_THAT(message_of<DataError>([] { train({{"ab", 5}, {"cd", 1}}, 259, 2); }), Contains("--vocab 258"));
  CHECK(train({{"ab", 5}, {"cd", 1}}, 259, 1).merges.size() == 2);
  CHECK_THROWS_AS(train({{"ab", 5}}, 256), ConfigError);
  CHECK(train({{"ab", 5}}, 257).merges.empty());
}

TEST_CASE("train-tokenizer does not depend on the number of threads and its result encodes the text") {
  const TemporaryFolder dir;
  std::mt19937 random(3);
  const std::string text = random_ascii(random, 3'000'000);
  write_text(dir / "text.txt", text);
  TrainTokenizerOptions options;
  options.corpus.files = {dir / "text.txt"};
  options.vocab_size = 300;
  set_threads(1);
  const std::string one = train_tokenizer(options);
  set_threads(3);
  CHECK(train_tokenizer(options) == one);
  set_threads(0);
  const auto tokenizer = parse_tokenizer(one, "trained");
  CHECK(tokenizer->vocab_size() == 300);
  const std::string sample = text.substr(0, 10000);
  const auto ids = tokenizer->encode(sample);
  CHECK(ids.size() < sample.size() * 2 / 3);
  CHECK(tokenizer->decode(ids) == sample);
}

TEST_CASE("train-tokenizer refuses an empty text") {
  const TemporaryFolder dir;
  write_text(dir / "text.txt", "\n\n");
  TrainTokenizerOptions options;
  options.corpus.files = {dir / "text.txt"};
  options.vocab_size = 300;
  CHECK_THAT(message_of<DataError>([&] { train_tokenizer(options); }), Contains("no text"));
}
