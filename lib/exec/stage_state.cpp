#include "exec/stage_state.h"

#include <utility>

namespace fp {

std::vector<ChunkPass> forward_passes(int64_t layers, size_t chunks) {
  std::vector<ChunkPass> passes;
  for (int64_t l = 0; l < layers; ++l)
    for (size_t i = 0; i < chunks; ++i) passes.push_back({l, i});
  return passes;
}

std::vector<ChunkPass> backward_passes(const std::vector<bool>& restores, size_t chunks) {
  std::vector<ChunkPass> passes;
  for (size_t l = restores.size(); l-- > 0;) {
    for (size_t i = 0; restores[l] && i + 1 < chunks; ++i) passes.push_back({static_cast<int64_t>(l), i, true});
    for (size_t i = chunks; i-- > 0;) passes.push_back({static_cast<int64_t>(l), i});
  }
  return passes;
}

ArenaTensor take_chunk(const ModelEnv& e, ArenaTensor& whole, const DeviceBatch& b, size_t chunk) {
  if (b.chunks.size() == 1) return std::move(whole);
  ArenaTensor part = e.alloc({b.chunks[chunk].local_rows(), whole->cols()});
  e.ops->copy({part, b.of_chunk(whole, chunk)});
  return part;
}

void collect(const ModelEnv& e, ArenaTensor part, const DeviceBatch& b, size_t chunk, ArenaTensor& whole) {
  const size_t chunks = b.chunks.size();
  if (chunks == 1) {
    whole = std::move(part);
    return;
  }
  if (!whole) whole = e.alloc({static_cast<int64_t>(chunks) * part->shape[0], part->cols()});
  e.ops->copy({b.of_chunk(whole, chunk), part});
}

}  // namespace fp
