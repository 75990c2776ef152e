#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace fp {
namespace {

using Candidate = BpeModel::Scratch::Candidate;

// For the heap functions, which keep the greatest element in front.
bool comes_later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

BpeModel::BpeModel(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids), merges_(merges.size()) {
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [joined, fresh] = merges_.insert(merges[rank].pair);
    FP_CHECK(fresh, "merge {} repeats an earlier one", rank);
    *joined = {static_cast<int32_t>(rank), merges[rank].id};
  }
}

void BpeModel::consider(Scratch& s, int32_t position) const {
  const auto& left = s.symbols[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const TokenPair pair{left.id, s.symbols[static_cast<size_t>(left.next)].id};
  if (const Joined* joined = merges_.find(pair)) {
    s.heap.push_back({joined->rank, position, pair, joined->id});
    std::push_heap(s.heap.begin(), s.heap.end(), comes_later);
  }
}

void BpeModel::encode(std::string_view word, Scratch& s, std::vector<int32_t>& ids) const {
  FP_CHECK(word.size() < size_t{std::numeric_limits<int32_t>::max()}, "a word of {} bytes", word.size());
  const auto n = static_cast<int32_t>(word.size());
  s.symbols.clear();
  s.heap.clear();
  for (int32_t i = 0; i < n; ++i)
    s.symbols.push_back({byte_ids_[static_cast<uint8_t>(word[static_cast<size_t>(i)])], i - 1, i + 1 < n ? i + 1 : -1});
  for (int32_t i = 0; i < n; ++i) consider(s, i);

  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), comes_later);
    const Candidate best = s.heap.back();
    s.heap.pop_back();
    auto& left = s.symbols[static_cast<size_t>(best.position)];
    // Entries are not removed when a merge overtakes them: they no longer describe what stands there. Id -1 is a symbol
    // that was swallowed by its left neighbour.
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
  for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = s.symbols[static_cast<size_t>(i)].next)
    ids.push_back(s.symbols[static_cast<size_t>(i)].id);
}

}  // namespace fp
