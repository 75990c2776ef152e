#include "checkpoint/staging.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "checkpoint/stored_elements.h"
#include "model/host_view.h"
#include "tensor/arena.h"

namespace fp {
namespace {

// Rounded up so that the next block is aligned.
size_t bytes_of(const StateBlock& b) {
  const auto bytes = static_cast<size_t>(stored_bytes(b.fragment.count.elements(), b.dtype));
  return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

}  // namespace

size_t Staging::bytes_for(const ParamTable& table, size_t limit) {
  const auto for_shard = [&](int shard) {
    size_t all = 0, largest = 0;
    for_each_block(
        table, shard, [](ParamId, int) { return true; },
        [&](const StateBlock& b) {
          all += bytes_of(b);
          largest = std::max(largest, bytes_of(b));
        });
    return limit == 0 ? all : std::min(all, std::max(limit, largest));
  };
  if (!table.slots_differ()) return for_shard(table.shard());
  // The ranks save unequal amounts. All take as much memory as the one that saves most.
  size_t most = 0;
  for (int shard = 0; shard < table.shards(); ++shard) most = std::max(most, for_shard(shard));
  return most;
}

Staging::Staging(size_t bytes) : capacity_(bytes) {
  try {
    memory_ = host_memory(bytes, false);
  } catch (const ConfigError&) {
    throw ConfigError(
        fmt::format("cannot allocate {} MiB of host memory for background saves; set checkpoint.staging_mib "
                    "(0: all that a rank saves) or checkpoint.asynchronous=false",
                    bytes >> 20));
  }
}

void Staging::begin() {
  const std::lock_guard lock(mutex_);
  filled_ = released_ = 0;
  failed_ = given_up_ = false;
}

uint64_t Staging::place(uint64_t at, size_t bytes) const {
  FP_CHECK(bytes <= capacity_, "a block of {} bytes in a staging area of {}", bytes, capacity_);
  const uint64_t inside = at % capacity_;
  return inside + bytes <= capacity_ ? at : at + capacity_ - inside;
}

std::byte* Staging::memory_at(uint64_t position) { return memory_.get() + position % capacity_; }

void Staging::fill(const ParamStore& store, Ops& ops, const std::function<void()>& waiting) {
  bool wanted = true;
  const auto copy = [&](const StateBlock& b) {
    if (!wanted) return;
    const uint64_t at = place(filled_, bytes_of(b)), end = at + bytes_of(b);
    {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, std::chrono::milliseconds(50),
                                [&] { return end - released_ <= capacity_ || given_up_; })) {
        lock.unlock();
        waiting();
        lock.lock();
      }
      wanted = !given_up_;
    }
    if (!wanted) return;
    const Tensor from = store.state(b.slot, {b.id, b.fragment.offset, b.fragment.count.elements()});
    FP_CHECK(from.dtype == b.dtype, "a state of {} in {}", name_of(b.dtype), name_of(from.dtype));
    read_tensor(ops, from, memory_at(at));
    const std::lock_guard lock(mutex_);
    filled_ = end;
    changed_.notify_all();
  };
  try {
    for_each_block(
        store.table(), store.table().shard(), [&](ParamId, int slot) { return store.has(slot); }, copy);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
    throw;
  }
}

void Staging::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

class Staging::Blocks : public BlockSource {
 public:
  explicit Blocks(Staging& staging) : staging_(staging) {}
  bool has(ParamId, int) const override { return true; }
  const float* read(const StateBlock& b) override {
    std::unique_lock lock(staging_.mutex_);
    const uint64_t at = staging_.place(end_, bytes_of(b));
    staging_.released_ = at;
    staging_.changed_.notify_all();
    end_ = at + bytes_of(b);
    staging_.changed_.wait(lock, [&] { return staging_.filled_ >= end_ || staging_.failed_ || staging_.given_up_; });
    if (staging_.given_up_) throw DataError("the save was given up");
    if (staging_.filled_ < end_) throw DataError("the state could not be copied for saving");
    lock.unlock();  // fill() does not write to the block before the next call
    const std::byte* stored = staging_.memory_at(at);
    if (b.dtype == DType::f32) return reinterpret_cast<const float*>(stored);
    const int64_t elements = b.fragment.count.elements();
    values_.resize(static_cast<size_t>(elements));
    std::memcpy(stored_in(values_.data(), elements, b.dtype), stored,
                static_cast<size_t>(stored_bytes(elements, b.dtype)));
    from_stored(values_.data(), elements, b.dtype);
    return values_.data();
  }

 private:
  Staging& staging_;
  std::vector<float> values_;  // of a block that is not fp32
  uint64_t end_ = 0;
};

std::unique_ptr<BlockSource> Staging::blocks() { return std::make_unique<Blocks>(*this); }

}  // namespace fp
