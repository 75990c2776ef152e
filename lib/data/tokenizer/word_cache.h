// A cache of the ids of short words. Natural text repeats its words so often that most of the encoding speed depends on
// it.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace fp {

// Direct-mapped: each word has one slot, and a new word replaces the old one. Not thread-safe.
class WordCache {
 public:
  WordCache() : slots_(kSlots) {}

  // Returns the cached ids, or an empty span (no word encodes to zero ids).
  std::span<const int32_t> find(std::string_view word) const {
    if (word.size() > kMaxBytes) return {};
    const Slot& slot = slots_[index_of(word)];
    const bool hit = slot.bytes == word.size() && std::memcmp(slot.word, word.data(), word.size()) == 0;
    return hit ? std::span<const int32_t>(slot.ids, slot.count) : std::span<const int32_t>();
  }
  void put(std::string_view word, std::span<const int32_t> ids) {
    if (word.size() > kMaxBytes || ids.size() > kMaxIds) return;
    Slot& slot = slots_[index_of(word)];
    slot.bytes = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(ids.size());
    std::memcpy(slot.word, word.data(), word.size());
    std::memcpy(slot.ids, ids.data(), ids.size() * sizeof(int32_t));
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 15, kMaxBytes = 22, kMaxIds = 10;
  struct alignas(64) Slot {  // one cache line
    int32_t ids[kMaxIds] = {};
    char word[kMaxBytes] = {};
    uint8_t bytes = 0, count = 0;
  };
  static_assert(sizeof(Slot) == 64);

  static size_t index_of(std::string_view word) { return XXH3_64bits(word.data(), word.size()) & (kSlots - 1); }

  std::vector<Slot> slots_;
};

}  // namespace fp
