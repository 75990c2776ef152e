// A ring buffer in host memory through which a rank's state passes to the thread that writes it. When the whole state
// fits, training continues as soon as it is copied; otherwise copying waits for the disk.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "checkpoint/rank_file.h"

namespace fp {

class Staging {
 public:
  // Returns the bytes to reserve for a rank's state: the size of all of it, or `limit` (0: no limit) if that is less,
  // but at least the size of the largest block. The same for all ranks of a data group but for the padding.
  static size_t bytes_for(const ParamTable&, size_t limit);

  // Allocates the memory; its pages are first touched when used. Throws ConfigError when it cannot be allocated.
  explicit Staging(size_t bytes);

  // For each save: call begin(), then fill() in one thread while another reads all of blocks().
  void begin();
  // Copies all blocks; returns early after give_up(). While the buffer is full it calls `waiting` every 50 ms.
  void fill(
      const ParamStore&, Ops&, const std::function<void()>& waiting = [] {});
  // Returns the blocks as fill() copies them. Their read() waits for fill(), and throws DataError when fill() failed or
  // after give_up().
  std::unique_ptr<BlockSource> blocks();
  // Makes fill() and reading end early.
  void give_up();

 private:
  class Blocks;
  // Positions count bytes since begin() and only grow; position p is at memory_[p % capacity_]. Returns the position at
  // which a block of this size is stored if all before `at` is taken: `at`, or where the memory begins again, as blocks
  // do not wrap around.
  uint64_t place(uint64_t at, size_t bytes) const;
  std::byte* memory_at(uint64_t position);

  std::shared_ptr<std::byte> memory_;
  size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t filled_ = 0, released_ = 0;  // positions: the end of what was copied, the begin of what is still read
  bool failed_ = false, given_up_ = false;
};

}  // namespace fp
