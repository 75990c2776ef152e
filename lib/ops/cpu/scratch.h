// Temporary memory of ops: a pool of buffers that are reused, so that a training step allocates nothing. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fp::cpu {

class ScratchPool {
 public:
  static constexpr size_t kAlignment = 64;

  // Owns a buffer of the pool until destroyed, which returns it.
  class Buffer {
   public:
    Buffer(ScratchPool& pool, std::byte* data, size_t bytes) : pool_(pool), data_(data), bytes_(bytes) {}
    ~Buffer() { pool_.release(data_, bytes_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::byte* data() const { return data_; }
    template <class T>
    T* as() const {
      return reinterpret_cast<T*>(data_);
    }

   private:
    ScratchPool& pool_;
    std::byte* data_;
    size_t bytes_;
  };

  ScratchPool() = default;
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // Returns a buffer of at least `bytes` uninitialised bytes. A pooled buffer that is too small is replaced, so the
  // pool never holds more buffers than were in use at once.
  Buffer acquire(size_t bytes);
  size_t bytes() const;  // of the buffers that are not in use

 private:
  void release(std::byte* data, size_t bytes);

  mutable std::mutex mutex_;
  std::vector<std::pair<std::byte*, size_t>> free_;
};

}  // namespace fp::cpu
