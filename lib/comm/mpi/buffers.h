// Host buffers that are used again: a step asks for the same sizes over and over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace fp {

class BufferPool {
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };

 public:
  // A buffer on loan; goes back when it is destroyed. The pool must outlive it.
  class Lease {
   public:
    Lease() = default;
    Lease(BufferPool* pool, Buffer buffer) : pool_(pool), buffer_(std::move(buffer)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (buffer_.memory) pool_->free_.push_back(std::move(buffer_));
    }
    std::byte* data() const { return buffer_.memory.get(); }

   private:
    BufferPool* pool_ = nullptr;
    Buffer buffer_;
  };

  // The smallest free buffer that is large enough; else the largest makes way for a new one.
  Lease take(size_t bytes) {
    if (bytes == 0) return {};
    std::sort(free_.begin(), free_.end(), [](const Buffer& a, const Buffer& b) { return a.bytes < b.bytes; });
    auto found = std::find_if(free_.begin(), free_.end(), [&](const Buffer& b) { return b.bytes >= bytes; });
    Buffer buffer;
    if (found != free_.end()) {
      buffer = std::move(*found);
      free_.erase(found);
    } else {
      if (!free_.empty()) free_.pop_back();
      buffer = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    }
    return {this, std::move(buffer)};
  }

 private:
  std::vector<Buffer> free_;
};

}  // namespace fp
