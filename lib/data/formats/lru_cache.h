// A thread-safe cache of bounded size that evicts the least recently used value.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace fp {

template <class Key, class Value>
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  // Returns the value stored under the key; null when there is none.
  std::shared_ptr<Value> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return at->second->second;
  }
  // Stores a value, and evicts the least recently used one when there are more than `capacity`.
  void put(const Key& key, std::shared_ptr<Value> value) {
    const std::lock_guard lock(mutex_);
    if (const auto at = by_key_.find(key); at != by_key_.end()) drop(at);
    order_.emplace_front(key, std::move(value));
    by_key_[key] = order_.begin();
    if (order_.size() > capacity_) drop(by_key_.find(order_.back().first));
  }
  // Removes the values with keys in [first, last].
  void erase(const Key& first, const Key& last) {
    const std::lock_guard lock(mutex_);
    for (auto at = by_key_.lower_bound(first); at != by_key_.end() && !(last < at->first);) at = drop(at);
  }

 private:
  using Order = std::list<std::pair<Key, std::shared_ptr<Value>>>;
  using ByKey = std::map<Key, typename Order::iterator>;
  typename ByKey::iterator drop(typename ByKey::iterator at) {
    order_.erase(at->second);
    return by_key_.erase(at);
  }

  const size_t capacity_;
  std::mutex mutex_;
  Order order_;  // most recently used first
  ByKey by_key_;
};

}  // namespace fp
