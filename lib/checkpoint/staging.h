// Host memory of a bounded size through which a rank's state passes to the thread that writes it. Where all of it has
// room at once, training goes on as soon as it is copied; where it has not, the copying waits for the disk.
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
  // What to reserve for a rank's state when no more than `limit` bytes may be (0: no limit): all of it, or as much as
  // the limit allows, but room for the largest block.
  static size_t bytes_for(const ParamTable&, size_t limit);

  // Memory of so many bytes, taken from the system now and touched when first used. ConfigError when there is none.
  explicit Staging(size_t bytes);

  // For each save: begin(), then fill() by one thread and a reading of all blocks by another.
  void begin();
  // Copies all blocks; returns early after give_up(). While there is no room it calls `waiting` now and then.
  void fill(
      const ParamStore&, Ops&, const std::function<void()>& waiting = [] {});
  // The blocks as they come. read() throws DataError when fill() failed, and after give_up().
  std::unique_ptr<BlockSource> blocks();
  // Ends both.
  void give_up();

 private:
  class Blocks;
  // Where a block of so many bytes lies that is put in at position `at`: blocks do not wrap around.
  uint64_t place(uint64_t at, size_t bytes) const;
  float* memory_at(uint64_t position);

  std::shared_ptr<std::byte> memory_;
  size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t filled_ = 0, released_ = 0;  // positions since begin(); modulo the capacity: in the memory
  bool failed_ = false, given_up_ = false;
};

}  // namespace fp
