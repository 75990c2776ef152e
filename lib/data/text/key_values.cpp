#include "data/text/key_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace fp {
namespace {

constexpr size_t kLetters = 26;

// Returns the tokens of all words of two letters from `first` on, each after a text.
std::vector<std::vector<int32_t>> encode_words(const Tokenizer& tokenizer, const std::string& before, char first) {
  std::vector<std::vector<int32_t>> all;
  const auto encoder = tokenizer.make_encoder(SpecialText::as_text);
  for (size_t i = 0; i < kLetters * kLetters; ++i) {
    const std::string word{static_cast<char>(first + static_cast<char>(i / kLetters)),
                           static_cast<char>(first + static_cast<char>(i % kLetters))};
    encoder->append(before + word, all.emplace_back());
  }
  return all;
}

size_t longest(const std::vector<std::vector<int32_t>>& all) {
  return std::max_element(all.begin(), all.end(), [](auto& a, auto& b) { return a.size() < b.size(); })->size();
}

}  // namespace

Filler::Filler(std::shared_ptr<const Dataset> dataset)
    : tokens_(dataset->tokens()), end_of_text_(dataset->tokenizer().eot()) {
  if (tokens_ == 0) throw DataError(fmt::format("{}: holds no text to hide pairs in", dataset->name()));
  read_ = [dataset](uint64_t begin, std::span<int32_t> out) { dataset->read(begin, out); };
}

Filler::Filler(std::vector<int32_t> tokens, int32_t end_of_text) : tokens_(tokens.size()), end_of_text_(end_of_text) {
  if (tokens_ == 0) throw DataError("the filler holds no text to hide pairs in");
  read_ = [all = std::make_shared<const std::vector<int32_t>>(std::move(tokens))](uint64_t begin,
                                                                                  std::span<int32_t> out) {
    std::copy_n(all->begin() + static_cast<int64_t>(begin), out.size(), out.begin());
  };
}

void Filler::append(uint64_t& at, uint64_t n, std::vector<int32_t>& ids) const {
  uint64_t left_out = 0;  // ends of text since the last token
  while (n > 0) {
    at %= tokens_;
    const uint64_t more = std::min(n, tokens_ - at);
    const size_t before = ids.size();
    ids.resize(before + more);
    read_(at, std::span(ids).last(more));
    ids.erase(std::remove(ids.begin() + static_cast<int64_t>(before), ids.end(), end_of_text_), ids.end());
    left_out = ids.size() > before ? 0 : left_out + more;
    if (left_out >= tokens_) throw DataError("the filler holds no text to hide pairs in, only ends of documents");
    at += more;
    n -= ids.size() - before;
  }
}

// The random numbers of one sample.
class KeyValueTexts::Random {
 public:
  explicit Random(const KeyValueSeed& s) : key_(Philox::key(s.seed, Purpose::key_values)), seed_(s) {}
  // Returns a number in [0, n).
  uint64_t below(uint64_t n) {
    const auto w = Philox::block(
        {next_++, seed_.stream, static_cast<uint32_t>(seed_.sample), static_cast<uint32_t>(seed_.sample >> 32)}, key_);
    return (uint64_t{w[1]} << 32 | w[0]) % n;
  }
  template <class T>
  void shuffle(std::vector<T>& items, size_t n) {  // the first n
    for (size_t i = 0; i < n && i + 1 < items.size(); ++i) std::swap(items[i], items[i + below(items.size() - i)]);
  }

 private:
  Philox::Key key_;
  KeyValueSeed seed_;
  uint32_t next_ = 0;
};

KeyValueTexts::KeyValueTexts(const Tokenizer& tokenizer, Filler filler)
    : filler_(std::move(filler)),
      prefix_(tokenizer.prefix_ids().begin(), tokenizer.prefix_ids().end()),
      questions_(encode_words(tokenizer, "<", 'a')),
      values_(encode_words(tokenizer, "", 'A')),
      close_(tokenizer.encode(">", SpecialText::as_text)),
      longest_pair_(longest(questions_) + longest(values_) + close_.size()) {
  constexpr size_t most = kShortestDocument / 4;
  if (longest_pair_ == 0 || longest_pair_ > most)
    throw ConfigError(fmt::format("this tokenizer writes a pair such as <qkZD> with up to {} tokens; legal: 1 to {}",
                                  longest_pair_, most));
}

std::vector<KeyValueTexts::Pair> KeyValueTexts::draw(size_t n, Random& random) const {
  FP_CHECK(n <= questions_.size(), "{} pairs, but there are {} keys", n, questions_.size());
  std::vector<size_t> keys(questions_.size());
  std::iota(keys.begin(), keys.end(), size_t{0});
  random.shuffle(keys, n);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < n; ++i) pairs.push_back({keys[i], random.below(values_.size())});
  return pairs;
}

void KeyValueTexts::append(const Pair& pair, std::vector<int32_t>& ids) const {
  for (const auto* part : {&questions_[pair.key], &values_[pair.value], &close_})
    ids.insert(ids.end(), part->begin(), part->end());
}

size_t KeyValueTexts::size_of(const Pair& pair) const {
  return questions_[pair.key].size() + values_[pair.value].size() + close_.size();
}

void KeyValueTexts::append_hidden(std::span<const Pair> pairs, std::span<const uint64_t> after, uint64_t n,
                                  Random& random, std::vector<int32_t>& ids) const {
  uint64_t at = random.below(filler_.tokens()), done = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    filler_.append(at, after[i] - done, ids);
    done = after[i];
    append(pairs[i], ids);
  }
  filler_.append(at, n - done, ids);
}

int64_t KeyValueTexts::shortest_needle(size_t pairs) const {
  return static_cast<int64_t>(prefix_.size() + (pairs + 1) * longest_pair_);
}

NeedleSample KeyValueTexts::needle(int64_t length, std::span<const double> depths, size_t asked,
                                   const KeyValueSeed& seed) const {
  FP_CHECK(length >= shortest_needle(depths.size()) && asked < depths.size(), "{} tokens, depth {} of {}", length,
           asked, depths.size());
  Random random(seed);
  const std::vector<Pair> pairs = draw(depths.size(), random);
  NeedleSample sample;
  const std::vector<int32_t>& question = questions_[pairs[asked].key];
  sample.answer = values_[pairs[asked].value];
  size_t taken = prefix_.size() + question.size() + sample.answer.size();
  for (const Pair& pair : pairs) taken += size_of(pair);
  const uint64_t filler = static_cast<uint64_t>(length) - taken;

  std::vector<size_t> order(depths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return depths[a] < depths[b]; });
  std::vector<Pair> hidden;
  std::vector<uint64_t> after;
  for (const size_t i : order) {
    hidden.push_back(pairs[i]);
    after.push_back(static_cast<uint64_t>(std::llround(depths[i] / 100 * static_cast<double>(filler))));
  }
  sample.prompt = prefix_;
  append_hidden(hidden, after, filler, random, sample.prompt);
  sample.prompt.insert(sample.prompt.end(), question.begin(), question.end());
  return sample;
}

std::vector<int32_t> KeyValueTexts::document(int64_t length, Asked asked, const KeyValueSeed& seed) const {
  FP_CHECK(length >= kShortestDocument, "a document of {} tokens", length);
  Random random(seed);
  const uint64_t most = static_cast<uint64_t>(length) / longest_pair_, fewest = most / 4 + 1;
  const uint64_t mentions = fewest + random.below(most - fewest + 1);
  const std::vector<Pair> pairs = draw(1 + random.below(std::min<uint64_t>(mentions / 2, kMostPairs)), random);
  std::vector<Pair> hidden = pairs, at_end;
  if (asked == Asked::at_end) {
    at_end = pairs;
    random.shuffle(at_end, at_end.size());
  } else {
    hidden.clear();
    for (uint64_t i = 0; i < mentions; ++i) hidden.push_back(pairs[random.below(pairs.size())]);
  }
  uint64_t filler = static_cast<uint64_t>(length);
  for (const auto* all : {&hidden, &at_end})
    for (const Pair& pair : *all) filler -= size_of(pair);
  std::vector<uint64_t> after;
  for (size_t i = 0; i < hidden.size(); ++i) after.push_back(random.below(filler + 1));
  std::sort(after.begin(), after.end());
  std::vector<int32_t> ids;
  append_hidden(hidden, after, filler, random, ids);
  for (const Pair& pair : at_end) append(pair, ids);
  return ids;
}

}  // namespace fp
