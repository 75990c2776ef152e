// A hash table from pairs of token ids to small values: open addressing, linear probing, no removal.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/philox.h"

namespace fp {

using TokenPair = std::pair<int32_t, int32_t>;

template <class Value>
class PairMap {
 public:
  explicit PairMap(size_t expected = 0) { rehash(expected); }

  size_t size() const { return size_; }

  // Returns null when absent. The pointer is valid until the next insertion.
  const Value* find(TokenPair pair) const {
    const Slot& slot = slots_[probe(key_of(pair))];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }
  // Returns the value of a pair and whether it was absent, in which case a default value is inserted.
  std::pair<Value*, bool> insert(TokenPair pair) {
    if ((size_ + 1) * 2 > slots_.size()) rehash(size_ * 2 + 8);
    Slot& slot = slots_[probe(key_of(pair))];
    const bool fresh = slot.key == kEmpty;
    if (fresh) {
      slot.key = key_of(pair);
      ++size_;
    }
    return {&slot.value, fresh};
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // ids are never negative, so no pair has this key
  struct Slot {
    uint64_t key = kEmpty;
    Value value{};
  };

  static uint64_t key_of(TokenPair p) {
    return uint64_t{static_cast<uint32_t>(p.first)} << 32 | static_cast<uint32_t>(p.second);
  }
  size_t probe(uint64_t key) const {
    size_t i = Philox::mix(key) & mask_;
    while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask_;
    return i;
  }
  void rehash(size_t expected) {
    size_t capacity = 16;
    while (capacity < expected * 2) capacity *= 2;
    std::vector<Slot> old(capacity);
    old.swap(slots_);
    mask_ = capacity - 1;
    for (Slot& slot : old)
      if (slot.key != kEmpty) slots_[probe(slot.key)] = std::move(slot);
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace fp
