// A pool of host buffers for reuse: every step needs the same sizes again.
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
  // Owns a buffer until destroyed, which returns it to the pool. The pool must outlive it.
  class Handle {
   public:
    Handle() = default;
    Handle(BufferPool* pool, Buffer buffer) : pool_(pool), buffer_(std::move(buffer)) {}
    Handle(Handle&&) noexcept = default;
    Handle& operator=(Handle&&) = delete;
    ~Handle() {
      if (buffer_.memory) pool_->free_.push_back(std::move(buffer_));
    }
    std::byte* data() const { return buffer_.memory.get(); }

   private:
    BufferPool* pool_ = nullptr;
    Buffer buffer_;
  };

  // Returns the smallest free buffer that is large enough; when there is none, a new one replaces the largest free one.
  Handle take(size_t bytes) {
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
