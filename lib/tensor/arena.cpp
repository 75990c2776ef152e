#include "tensor/arena.h"

#include <sys/mman.h>

#include <algorithm>

namespace fp {
namespace {

// Dry arenas start at addresses that no process maps, so a mistaken access crashes instead of corrupting.
constexpr uintptr_t kDryBase = uintptr_t{1} << 60, kDryHostBase = uintptr_t{1} << 61;
constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

std::shared_ptr<std::byte> host_memory(size_t bytes, bool huge_pages) {
  const size_t size = round_up(std::max<size_t>(bytes, 1), kHugePage);
  // Over-allocate by one huge page of address space (not of memory) to align the base.
  void* map =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    throw ConfigError(fmt::format(
        "cannot reserve {:.2f} GiB of memory for this run; use a smaller model, micro_batch or more recompute",
        static_cast<double>(size) / (1 << 30)));
  const uintptr_t start = reinterpret_cast<uintptr_t>(map), aligned = round_up(start, kHugePage);
  if (aligned > start) ::munmap(map, aligned - start);
  ::munmap(reinterpret_cast<void*>(aligned + size), kHugePage - (aligned - start));
  if (huge_pages) ::madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
  return {reinterpret_cast<std::byte*>(aligned), [size](std::byte* p) { ::munmap(p, size); }};
}

std::byte* Arena::base() const {
  if (!dry()) return memory_.get();
  return reinterpret_cast<std::byte*>(residence_ == Residence::device ? kDryBase : kDryHostBase);
}

ArenaTensor Arena::alloc(DType dtype, const Shape& shape, MemoryClass what) {
  const size_t bytes =
      round_up(std::max<size_t>(static_cast<size_t>(shape.elements()) * size_of(dtype), 1), kAlignment);
  size_t offset = top_;
  if (const auto hole = by_size_.lower_bound({bytes, 0}); hole != by_size_.end()) {
    offset = hole->second;
    const size_t rest = hole->first - bytes;
    remove_hole(free_.find(offset));
    if (rest > 0) add_hole(offset + bytes, rest);
  } else {
    top_ += bytes;
    FP_CHECK(dry() || top_ <= capacity_, "{} arena of {} bytes is full: {} in use, {} more wanted for {} {}",
             name_of(residence_), capacity_, in_use_, bytes, name_of(what), shape.str());
  }
  used_[offset] = {bytes, what};
  in_use_ += bytes;
  most_in_use_ = std::max(most_in_use_, in_use_);
  now_[static_cast<size_t>(what)] += bytes;
  if (top_ > peak_) {
    peak_ = top_;
    at_peak_ = now_;
    moment_of_peak_ = moment_;
  }
  return {this, Tensor(base() + offset, dtype, shape, residence_)};
}

void Arena::release(void* data) {
  const size_t offset = static_cast<size_t>(static_cast<std::byte*>(data) - base());
  const auto block = used_.find(offset);
  FP_CHECK(block != used_.end(), "released an address that the arena did not allocate");
  FP_CHECK(guard_ == nullptr || !guard_->in_use(data, block->second.bytes),
           "released {} bytes of {} memory that a copy still uses", block->second.bytes, name_of(residence_));
  if (on_release_) on_release_(data, block->second.bytes);
  size_t begin = offset, end = offset + block->second.bytes;
  in_use_ -= block->second.bytes;
  now_[static_cast<size_t>(block->second.what)] -= block->second.bytes;
  used_.erase(block);
  // Merge with the holes on both sides; a hole that reaches the top lowers the top.
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    const auto merged = next++;
    remove_hole(merged);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      begin = previous->first;
      remove_hole(previous);
    }
  }
  if (end == top_)
    top_ = begin;
  else
    add_hole(begin, end - begin);
}

void Arena::add_hole(size_t offset, size_t bytes) {
  free_[offset] = bytes;
  by_size_.emplace(bytes, offset);
}

void Arena::remove_hole(std::map<size_t, size_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  free_.erase(hole);
}

void ArenaTensor::reset() {
  if (arena_ != nullptr) arena_->release(tensor_.data);
  arena_ = nullptr;
  tensor_ = {};
}

}  // namespace fp
