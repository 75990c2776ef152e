// A bounded store of what was used last. Thread-safe.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace fp {

template <class Key, class Value>
class LeastRecentlyUsed {
 public:
  explicit LeastRecentlyUsed(size_t most) : most_(most) {}

  // The value kept under this key; null when there is none.
  std::shared_ptr<Value> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return at->second->second;
  }
  // Keeps it; beyond `most` values, the one that was not used for longest is dropped.
  void keep(const Key& key, std::shared_ptr<Value> value) {
    const std::lock_guard lock(mutex_);
    if (const auto at = by_key_.find(key); at != by_key_.end()) drop(at);
    order_.emplace_front(key, std::move(value));
    by_key_[key] = order_.begin();
    if (order_.size() > most_) drop(by_key_.find(order_.back().first));
  }
  // Drops what has a key in [first, last].
  void forget(const Key& first, const Key& last) {
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

  const size_t most_;
  std::mutex mutex_;
  Order order_;  // what was used last comes first
  ByKey by_key_;
};

}  // namespace fp
