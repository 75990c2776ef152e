#include "data/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/pair_map.h"

namespace fp {
namespace {

// All words are in one array of symbols, linked within each word. The positions of every pair are kept, so the cost of
// a merge is proportional to the occurrences of the pair, whatever the length of the words.
class Trainer {
 public:
  Trainer(const WordCounts& words, const BpeTrainerOptions& options) : options_(options) {
    const auto order = ByteAlphabet().in_order();
    std::array<int32_t, 256> byte_ids{};
    for (size_t id = 0; id < order.size(); ++id) {
      byte_ids[order[id]] = static_cast<int32_t>(id);
      add_token(std::string(1, static_cast<char>(order[id])));
    }
    lay_out(words, byte_ids);
    push_grown();
  }

  TrainedBpe run() {
    const size_t others = 1 + options_.special_tokens.size();  // the end-of-text token comes before the special ones
    const size_t wanted = static_cast<size_t>(options_.vocab_size) - others;
    while (tokens_.size() < wanted) {
      if (options_.on_progress && merges_.size() % 256 == 0)
        options_.on_progress(static_cast<int64_t>(tokens_.size() - 256), static_cast<int64_t>(wanted - 256));
      const auto best = pop();
      if (!best)
        throw DataError(
            fmt::format("the text holds pairs for a vocabulary of {} tokens, not {}: no other pair occurs {} "
                        "times; use --vocab {} or less, a lower --min-frequency, or more text",
                        tokens_.size() + others, options_.vocab_size, options_.min_frequency, tokens_.size() + others));
      merge(*best, token_of(*best));
    }
    return {std::move(tokens_), std::move(merges_)};
  }

 private:
  using Place = uint32_t;  // index into symbols_
  static constexpr Place kNone = std::numeric_limits<Place>::max();
  static constexpr int32_t kSwallowed = -1, kNotJoined = -1;
  struct Symbol {
    int32_t id;
    Place prev, next;
    uint32_t word;
  };
  struct Occurrences {
    uint64_t count = 0;
    uint64_t grown_in = 0;        // the last round (counted from 1) in which it became more frequent
    int32_t joined = kNotJoined;  // the token that it was merged into
    std::vector<Place> places;    // of the left symbol; some may be outdated
  };
  struct Candidate {
    uint64_t count;
    TokenPair pair;
    bool operator<(const Candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
  };

  static size_t index(int32_t id) { return static_cast<size_t>(id); }

  int32_t add_token(const std::string& bytes) {
    const auto [it, fresh] = ids_.emplace(bytes, static_cast<int32_t>(tokens_.size()));
    if (fresh) tokens_.push_back(bytes);
    return it->second;
  }

  // Returns the token of `pair`, adding a merge if there is none. A merged pair can become frequent again only when two
  // merges give the same bytes and thus the same token.
  int32_t token_of(TokenPair pair) {
    int32_t& joined = pairs_.insert(pair).first->joined;
    if (joined == kNotJoined) {
      joined = add_token(tokens_[index(pair.first)] + tokens_[index(pair.second)]);
      merges_.push_back({pair, joined, static_cast<int32_t>(merges_.size())});
    }
    return joined;
  }

  void lay_out(const WordCounts& words, const std::array<int32_t, 256>& byte_ids) {
    std::vector<const WordCounts::value_type*> sorted;
    for (const auto& entry : words) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    size_t total = 0;
    for (const auto* entry : sorted) total += entry->first.size();
    if (total >= kNone)
      throw DataError(
          fmt::format("the distinct words of the text hold {} bytes; training handles {}: use a sample of the "
                      "text, or text with repeating words",
                      total, kNone - 1));
    symbols_.reserve(total);
    for (const auto* entry : sorted) {
      const std::string& word = entry->first;
      const auto first = static_cast<Place>(symbols_.size());
      for (size_t i = 0; i < word.size(); ++i) {
        const auto at = first + static_cast<Place>(i);
        symbols_.push_back({byte_ids[static_cast<uint8_t>(word[i])], i > 0 ? at - 1 : kNone,
                            i + 1 < word.size() ? at + 1 : kNone, static_cast<uint32_t>(frequencies_.size())});
      }
      frequencies_.push_back(entry->second);
      for (Place at = first; at + 1 < symbols_.size(); ++at) grow({symbols_[at].id, symbols_[at + 1].id}, at);
    }
  }

  uint64_t frequency(Place at) const { return frequencies_[symbols_[at].word]; }

  void grow(TokenPair pair, Place at) {
    Occurrences& o = *pairs_.insert(pair).first;
    o.count += frequency(at);
    o.places.push_back(at);
    if (std::exchange(o.grown_in, round_) != round_) grown_.push_back(pair);
  }
  void shrink(TokenPair pair, Place at) { pairs_.insert(pair).first->count -= frequency(at); }

  void push_grown() {
    for (const TokenPair& pair : grown_) push(pair);
    grown_.clear();
    ++round_;
  }
  void push(TokenPair pair) {
    const uint64_t count = pairs_.find(pair)->count;
    if (count < std::max<uint64_t>(options_.min_frequency, 1)) return;
    heap_.push_back({count, pair});
    std::push_heap(heap_.begin(), heap_.end());
  }
  // Returns the most frequent pair. Outdated counts in the heap are always too high; such entries are corrected and
  // pushed again.
  std::optional<TokenPair> pop() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate best = heap_.back();
      heap_.pop_back();
      const uint64_t count = pairs_.find(best.pair)->count;
      if (count == best.count) return best.pair;
      if (count < best.count) push(best.pair);  // grown pairs were pushed when they grew
    }
    return std::nullopt;
  }

  void merge(TokenPair pair, int32_t id) {
    Occurrences& merged = *pairs_.insert(pair).first;
    std::vector<Place> places = std::exchange(merged.places, {});
    merged.count = 0;
    std::sort(places.begin(), places.end());  // leftmost first: "aaa" becomes "aa a"
    for (const Place at : places) {
      Symbol& left = symbols_[at];
      if (left.id != pair.first || left.next == kNone || symbols_[left.next].id != pair.second) continue;
      Symbol& right = symbols_[left.next];
      if (left.prev != kNone) {
        const int32_t before = symbols_[left.prev].id;
        if (TokenPair{before, left.id} != pair) shrink({before, left.id}, at);
        grow({before, id}, left.prev);
      }
      if (right.next != kNone) {
        const int32_t after = symbols_[right.next].id;
        if (TokenPair{right.id, after} != pair) shrink({right.id, after}, at);
        grow({id, after}, at);
        symbols_[right.next].prev = at;
      }
      left.id = id;
      left.next = right.next;
      right.id = kSwallowed;
    }
    push_grown();
  }

  const BpeTrainerOptions& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Merge> merges_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> frequencies_;
  PairMap<Occurrences> pairs_;
  uint64_t round_ = 1;
  std::vector<TokenPair> grown_;  // pairs that became more frequent in this round
  std::vector<Candidate> heap_;
};

}  // namespace

void count_words(std::string_view text, PieceSplitter& splitter, WordCounts& counts) {
  splitter.for_each(text, [&](std::string_view word) {
    const auto it = counts.find(word);
    if (it != counts.end())
      ++it->second;
    else
      counts.emplace(word, 1);
  });
}

void check(const BpeTrainerOptions& options) {
  const size_t special = options.special_tokens.size(), least = 257 + special;
  if (options.vocab_size < 0 || static_cast<size_t>(options.vocab_size) < least)
    throw ConfigError(fmt::format(
        "--vocab {}: legal: at least {}: 256 bytes, {}{}", options.vocab_size, least, kEndOfTextToken,
        special == 0 ? "" : fmt::format(" and {} special tokens (see --special and --no-chat-tokens)", special)));
  std::set<std::string> seen = {kEndOfTextToken};
  for (const std::string& token : options.special_tokens) {
    if (token.empty()) throw ConfigError("--special: a special token has at least one character");
    if (utf8_valid_prefix(token) != token.size())
      throw ConfigError(fmt::format("--special {}: a special token is text in UTF-8", token));
    if (!seen.insert(token).second)
      throw ConfigError(fmt::format("--special {}: the tokenizer has this special token already", token));
  }
}

TrainedBpe train_bpe(const WordCounts& words, const BpeTrainerOptions& options) {
  check(options);
  return Trainer(words, options).run();
}

Gpt2Vocabulary vocabulary_of(const TrainedBpe& trained, const std::vector<std::string>& special_tokens) {
  const ByteAlphabet alphabet;
  const auto eot = static_cast<int32_t>(trained.tokens.size());
  Gpt2Vocabulary result;
  for (int32_t id = 0; id < eot; ++id)
    result.vocab.emplace_back(alphabet.to_printable(trained.tokens[static_cast<size_t>(id)]), id);
  const auto name = [&](int32_t id) { return result.vocab[static_cast<size_t>(id)].first; };
  for (const Merge& merge : trained.merges) result.merges.emplace_back(name(merge.pair.first), name(merge.pair.second));
  result.vocab.emplace_back(kEndOfTextToken, eot);
  result.end_of_text = {kEndOfTextToken, eot};
  for (const std::string& token : special_tokens) {
    if (std::any_of(result.vocab.begin(), result.vocab.end(), [&](const auto& t) { return t.first == token; }))
      throw ConfigError(fmt::format("--special {}: the text has taught this as an ordinary token; use another", token));
    result.special.emplace_back(token, static_cast<int32_t>(result.vocab.size()));
    result.vocab.push_back(result.special.back());
  }
  return result;
}

}  // namespace fp
