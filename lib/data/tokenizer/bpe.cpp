#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"

namespace fp {
namespace {

using Candidate = BpeModel::Scratch::Candidate;

// The order for the heap functions, which keep the greatest element first.
bool comes_later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

BpeModel::BpeModel(const BpeRules& rules)
    : kind_(rules.symbols),
      byte_ids_(rules.byte_ids),
      characters_(rules.characters.size()),
      merges_(rules.merges.size()),
      unknown_(rules.unknown.value_or(-1)),
      fuse_unknown_(rules.fuse_unknown) {
  for (int32_t c = 0; c < 128; ++c) ascii_[static_cast<size_t>(c)] = kMaxTokenIds + c;
  for (const auto& [character, id] : rules.characters) {
    if (character < 128) ascii_[character] = id;
    *characters_.insert({static_cast<int32_t>(character), 0}).first = id;
  }
  for (const Merge& merge : rules.merges) {
    const auto [joined, fresh] = merges_.insert(merge.pair);
    FP_CHECK(fresh, "the merge of rank {} repeats an earlier one", merge.rank);
    *joined = {merge.rank, merge.id};
  }
  for (const auto& [word, id] : rules.whole_words) whole_words_.emplace(word, id);
  for (const auto& [text, id] : rules.frozen) frozen_.add(text, id);
  for (const int32_t id : rules.unused) {
    if (unused_.size() <= static_cast<size_t>(id)) unused_.resize(static_cast<size_t>(id) + 1);
    unused_[static_cast<size_t>(id)] = true;
  }
}

int32_t BpeModel::symbol_of(std::string_view character) const {
  if (character.size() == 1) return ascii_[static_cast<uint8_t>(character[0])];
  const auto code_point = static_cast<int32_t>(utf8_decode(character));
  const int32_t* id = characters_.find({code_point, 0});
  return id ? *id : kMaxTokenIds + code_point;
}

void BpeModel::lay_out(std::string_view word, Scratch& s) const {
  s.symbols.clear();
  const auto put = [&](int32_t id) {
    const auto at = static_cast<int32_t>(s.symbols.size());
    s.symbols.push_back({id, at - 1, at + 1});
  };
  if (kind_ == BpeRules::Symbols::bytes) {
    for (const char c : word) put(byte_ids_[static_cast<uint8_t>(c)]);
  } else {
    for (size_t at = 0; at < word.size();) {
      const std::string_view rest = word.substr(at);
      const PrefixMatcher::Match frozen = frozen_.longest(rest);
      const size_t length = frozen.length > 0 ? frozen.length : utf8_character(rest);
      FP_CHECK(length > 0, "a word with ill-formed UTF-8");
      put(frozen.length > 0 ? frozen.value : symbol_of(rest.substr(0, length)));
      at += length;
    }
  }
  if (!s.symbols.empty()) s.symbols.back().next = -1;
}

void BpeModel::consider(Scratch& s, int32_t position) const {
  const auto& left = s.symbols[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const TokenPair pair{left.id, s.symbols[static_cast<size_t>(left.next)].id};
  if (const Joined* joined = merges_.find(pair)) {
    s.heap.push_back({joined->rank, position, pair, joined->id});
    std::push_heap(s.heap.begin(), s.heap.end(), comes_later);
    if (!unused_.empty()) s.halves[joined->id] = pair;
  }
}

void BpeModel::join(Scratch& s) const {
  s.heap.clear();
  for (size_t i = 0; i < s.symbols.size(); ++i) consider(s, static_cast<int32_t>(i));
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), comes_later);
    const Candidate best = s.heap.back();
    s.heap.pop_back();
    auto& left = s.symbols[static_cast<size_t>(best.position)];
    // Outdated entries stay in the heap and are skipped here. Id -1 marks a symbol that was merged into its left
    // neighbour.
    if (left.id != best.pair.first || left.next < 0) continue;
    auto& right = s.symbols[static_cast<size_t>(left.next)];
    if (right.id != best.pair.second) continue;
    left.id = best.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) s.symbols[static_cast<size_t>(left.next)].prev = best.position;
    if (left.prev >= 0) consider(s, left.prev);
    consider(s, best.position);
  }
}

void BpeModel::emit(Scratch& s, std::vector<int32_t>& ids) const {
  bool after_unknown = false;
  const auto put = [&](int32_t id) {
    if (id < kMaxTokenIds) {
      ids.push_back(id);
    } else if (byte_ids_[0] >= 0) {
      std::string bytes;
      utf8_append(static_cast<char32_t>(id - kMaxTokenIds), bytes);
      for (const char b : bytes) ids.push_back(byte_ids_[static_cast<uint8_t>(b)]);
    } else if (!(fuse_unknown_ && after_unknown)) {
      FP_CHECK(unknown_ >= 0, "an unknown character and no token for it");
      ids.push_back(unknown_);
    }
    after_unknown = id >= kMaxTokenIds;
  };
  const auto is_unused = [&](int32_t id) {
    return static_cast<size_t>(id) < unused_.size() && unused_[static_cast<size_t>(id)];
  };
  for (int32_t i = s.symbols.empty() ? -1 : 0; i >= 0; i = s.symbols[static_cast<size_t>(i)].next) {
    if (unused_.empty()) {
      put(s.symbols[static_cast<size_t>(i)].id);
      continue;
    }
    s.pending.assign(1, s.symbols[static_cast<size_t>(i)].id);
    while (!s.pending.empty()) {
      const int32_t id = s.pending.back();
      s.pending.pop_back();
      const auto halves = is_unused(id) ? s.halves.find(id) : s.halves.end();
      if (halves == s.halves.end()) {
        put(id);
      } else {
        s.pending.push_back(halves->second.second);
        s.pending.push_back(halves->second.first);
      }
    }
  }
}

void BpeModel::encode(std::string_view word, Scratch& s, std::vector<int32_t>& ids) const {
  FP_CHECK(word.size() < size_t{std::numeric_limits<int32_t>::max()}, "a word of {} bytes", word.size());
  if (!whole_words_.empty()) {
    if (const auto it = whole_words_.find(word); it != whole_words_.end()) {
      ids.push_back(it->second);
      return;
    }
  }
  s.halves.clear();
  lay_out(word, s);
  join(s);
  emit(s, ids);
}

}  // namespace fp
