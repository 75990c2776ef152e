// Arena: a region of memory, sized by a dry run before step 0, from which tensors of training are allocated. A rank has
// one in device memory and, if it offloads, one in host memory.
//
// An arena without memory (dry) returns the same addresses relative to its base, so the high-water mark of a dry run is
// exactly what the real run needs. Allocation is best fit over an address-ordered free list, and deterministic. Not
// thread-safe: an arena belongs to the one thread that runs a rank's model.
//
// Released memory may be allocated again at once, because ops run in the order in which they are issued. Asynchronous
// copies do not: memory that one uses may be released only after Copies::wait() was called for it, which a guard
// checks.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
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
// The current work of a rank, for memory reports; set by the code that runs its model.
struct Moment {
  std::string_view what = "set-up";
  int64_t layer = -1;  // -1: no particular layer
  int batch = -1;      // of the step or the evaluation, from 0; -1: no particular batch
  bool evaluates = false;
};

using BytesByClass = std::array<size_t, kMemoryClasses>;

class Arena;

// Reports which memory is still in use by work that is not ordered with the ops.
class MemoryGuard {
 public:
  virtual ~MemoryGuard() = default;
  virtual bool in_use(const void* data, size_t bytes) const = 0;
};

// A tensor that returns its memory to the arena on destruction. Move-only. The arena must outlive it.
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

// Allocates host memory, on huge pages if requested and available. Throws ConfigError if the addresses cannot be
// reserved.
std::shared_ptr<std::byte> host_memory(size_t bytes, bool huge_pages);

class Arena {
 public:
  static constexpr size_t kAlignment = 256;

  // A dry arena: no memory, counts only.
  explicit Arena(Residence r = Residence::device) : residence_(r) {}
  // An arena over memory aligned to kAlignment, from Ops::allocate(bytes) or Ops::allocate_host(bytes).
  Arena(std::shared_ptr<std::byte> memory, size_t bytes, Residence r = Residence::device)
      : residence_(r), memory_(std::move(memory)), capacity_(bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Allocates uninitialised memory. Throws InternalError if the arena is full: the dry run should have predicted that.
  ArenaTensor alloc(DType dtype, const Shape& shape, MemoryClass what = MemoryClass::activations);

  Residence residence() const { return residence_; }
  bool dry() const { return memory_ == nullptr; }
  size_t capacity() const { return capacity_; }
  size_t in_use() const { return in_use_; }
  // Maximum of in_use() since mark(), or since construction.
  size_t most_in_use() const { return most_in_use_; }
  void mark() { most_in_use_ = in_use_; }
  // Highest address ever used, relative to the base: the capacity that a real arena needs for the same allocations.
  size_t peak() const { return peak_; }
  // Bytes by class at the moment of the peak.
  const BytesByClass& by_class_at_peak() const { return at_peak_; }
  // Sets what the rank computes from now on, and returns what it was when the peak was reached.
  void enter(const Moment& m) { moment_ = m; }
  const Moment& moment_of_peak() const { return moment_of_peak_; }
  // From now on, releasing memory that the guard reports as in use throws InternalError. The guard must outlive its
  // use.
  void guard(const MemoryGuard& g) { guard_ = &g; }
  // Calls a function with all memory that is released, for tests: it overwrites what nobody may read any more.
  void on_release(std::function<void(void* data, size_t bytes)> f) { on_release_ = std::move(f); }

 private:
  friend class ArenaTensor;
  void release(void* data);
  void add_hole(size_t offset, size_t bytes);
  void remove_hole(std::map<size_t, size_t>::iterator);

  struct Block {
    size_t bytes;
    MemoryClass what;
  };
  std::byte* base() const;

  Residence residence_;
  std::shared_ptr<std::byte> memory_;
  size_t capacity_ = 0;
  size_t in_use_ = 0, most_in_use_ = 0;
  size_t peak_ = 0;
  BytesByClass now_{};
  BytesByClass at_peak_{};
  Moment moment_, moment_of_peak_;
  std::map<size_t, size_t> free_;                // offset -> bytes of holes below top_
  std::set<std::pair<size_t, size_t>> by_size_;  // the same: (bytes, offset)
  std::map<size_t, Block> used_;                 // offset -> block
  size_t top_ = 0;                               // everything above is unused
  const MemoryGuard* guard_ = nullptr;
  std::function<void(void*, size_t)> on_release_;
};

}  // namespace fp
