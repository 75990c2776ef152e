#include "data/formats/block_hashes.h"

#include <xxhash.h>

#include <algorithm>

namespace fp {

uint64_t hash_of_block(std::span<const std::byte> block) { return XXH3_64bits(block.data(), block.size()); }

void BlockHasher::FreeState::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

BlockHasher::BlockHasher() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }

void BlockHasher::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), kHashedBlock - in_block_));
    XXH3_64bits_update(state_.get(), bytes.data(), n);
    in_block_ += n;
    bytes = bytes.subspan(n);
    if (in_block_ == kHashedBlock) end_block();
  }
}

void BlockHasher::end_block() {
  hashes_.push_back(XXH3_64bits_digest(state_.get()));
  XXH3_64bits_reset(state_.get());
  in_block_ = 0;
}

BlockHashes BlockHasher::finish() {
  if (in_block_ > 0) end_block();
  return std::move(hashes_);
}

}  // namespace fp
