// Arena: one region of memory a rank, sized by a dry run before step 0, out of which every tensor of training is cut.
//
// The same arena without memory behind it (dry) hands out the same addresses relative to its base, so the high-water
// mark of a dry run is exactly what the real run needs. First fit over an address-ordered free list: deterministic. Not
// thread-safe: an arena belongs to the one thread that runs a rank's model.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "tensor/tensor.h"

namespace fp {

enum class MemoryClass : uint8_t { parameters, gradients, optimizer, activations, workspace, logits };
constexpr int kMemoryClasses = 6;
constexpr const char* name_of(MemoryClass c) {
  constexpr const char* names[kMemoryClasses] = {"parameters",  "gradients", "optimizer",
                                                 "activations", "workspace", "logits"};
  return names[static_cast<int>(c)];
}
// What a rank is doing, as whoever runs its model says it.
struct Moment {
  std::string_view what = "set-up";
  int64_t layer = -1;  // -1: none of them
  int batch = -1;      // of the step or the evaluation, from 0; -1: none of them
  bool evaluates = false;
};

using BytesByClass = std::array<size_t, kMemoryClasses>;

class Arena;

// A tensor that gives its memory back to the arena when it goes. Move-only. The arena must outlive it.
class ArenaTensor {
 public:
  ArenaTensor() = default;
  ArenaTensor(Arena* arena, const Tensor& t) : arena_(arena), tensor_(t) {}
  ArenaTensor(ArenaTensor&& o) noexcept
      : arena_(std::exchange(o.arena_, nullptr)), tensor_(std::exchange(o.tensor_, {})) {}
  ArenaTensor& operator=(ArenaTensor&& o) noexcept {
    std::swap(arena_, o.arena_);
    std::swap(tensor_, o.tensor_);
    if (this != &o) o.reset();
    return *this;
  }
  ~ArenaTensor() { reset(); }

  void reset();
  explicit operator bool() const { return static_cast<bool>(tensor_); }
  operator const Tensor&() const { return tensor_; }
  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }

 private:
  Arena* arena_ = nullptr;
  Tensor tensor_;
};

// Memory of the host, on huge pages where the system grants them. ConfigError when the addresses cannot be had.
std::shared_ptr<std::byte> host_memory(size_t bytes, bool huge_pages);

class Arena {
 public:
  static constexpr size_t kAlignment = 256;

  // Without memory: counts only.
  Arena() = default;
  // With memory of a device, aligned to kAlignment: Ops::allocate(bytes).
  Arena(std::shared_ptr<std::byte> memory, size_t bytes) : memory_(std::move(memory)), capacity_(bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Uninitialised memory. InternalError when the arena is full: the dry run should have known.
  ArenaTensor alloc(DType dtype, const Shape& shape, MemoryClass what = MemoryClass::activations);

  bool dry() const { return memory_ == nullptr; }
  size_t capacity() const { return capacity_; }
  size_t in_use() const { return in_use_; }
  // The most that was in use at a time since mark(), or ever.
  size_t most_in_use() const { return most_in_use_; }
  void mark() { most_in_use_ = in_use_; }
  // Highest address ever used, relative to the base: the capacity a real arena needs to repeat what was done.
  size_t peak() const { return peak_; }
  // Bytes by class at the moment of the peak.
  const BytesByClass& by_class_at_peak() const { return at_peak_; }
  // What comes next, until told otherwise; and what it was when the peak was reached.
  void enter(const Moment& m) { moment_ = m; }
  const Moment& moment_of_peak() const { return moment_of_peak_; }

 private:
  friend class ArenaTensor;
  void release(void* data);

  struct Block {
    size_t bytes;
    MemoryClass what;
  };
  std::byte* base() const;

  std::shared_ptr<std::byte> memory_;
  size_t capacity_ = 0;
  size_t in_use_ = 0, most_in_use_ = 0;
  size_t peak_ = 0;
  BytesByClass now_{};
  BytesByClass at_peak_{};
  Moment moment_, moment_of_peak_;
  std::map<size_t, size_t> free_;  // offset -> bytes of holes below top_
  std::map<size_t, Block> used_;   // offset -> block
  size_t top_ = 0;                 // everything above is untouched or free again
};

}  // namespace fp
