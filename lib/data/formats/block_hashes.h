// Hashes of each MiB of a file. They detect a changed block when it is read (docs/data-format.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct XXH3_state_s;

namespace fp {

inline constexpr uint64_t kHashedBlock = uint64_t{1} << 20;

// The XXH3-64 hash of each MiB of a file, in order; the last block may be shorter.
using BlockHashes = std::vector<uint64_t>;

constexpr uint64_t blocks_in(uint64_t bytes) { return bytes / kHashedBlock + (bytes % kHashedBlock > 0 ? 1 : 0); }
uint64_t hash_of_block(std::span<const std::byte> block);

// Hashes a file sequentially, in pieces of any size.
class BlockHasher {
 public:
  BlockHasher();
  void add(std::span<const std::byte> bytes);
  // Returns the hashes of everything that was added. Nothing may be added afterwards.
  BlockHashes finish();

 private:
  struct FreeState {
    void operator()(XXH3_state_s* state) const;
  };
  void end_block();

  std::unique_ptr<XXH3_state_s, FreeState> state_;
  uint64_t in_block_ = 0;
  BlockHashes hashes_;
};

}  // namespace fp
