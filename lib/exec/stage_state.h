// StageState: what a micro-batch leaves in a stage between its passes, by layer and chunk (sharding/tokens.h).
//
// The residual stream and its gradient are tensors of one chunk. If activations are offloaded, they are in host memory
// while no pass uses them: a tensor is copied to the host while the next chunk is computed, and copied back one chunk
// before it is used. With two chunks it is used before it has left the device, and so stays there. A sequence of one
// chunk comes back one layer ahead.
#pragma once

#include <vector>

#include "exec/device_batch.h"
#include "model/block.h"

namespace fp {

struct LayerState {
  std::vector<OffloadedTensor> inputs;  // by chunk
  std::vector<BlockState> chunks;
  KeyValues kv;
};

struct StageState {
  std::vector<LayerState> layers;
  std::vector<OffloadedTensor> outputs;    // of the last layer, by chunk
  std::vector<OffloadedTensor> gradients;  // of the residual stream, by chunk

  // Returns the inputs of a layer or, after the last one, the outputs.
  std::vector<OffloadedTensor>& inputs_of(int64_t layer) {
    const auto l = static_cast<size_t>(layer);
    return l < layers.size() ? layers[l].inputs : outputs;
  }
};

// One pass over a chunk in a layer. In the backward pass, `keys_only`: its keys and values are restored, before the
// passes of the later chunks.
struct ChunkPass {
  int64_t layer = 0;
  size_t chunk = 0;
  bool keys_only = false;
};

// Return the passes of a stage's layers over the chunks of a micro-batch, in order. `restores`: by layer, whether the
// backward pass restores its keys and values.
std::vector<ChunkPass> forward_passes(int64_t layers, size_t chunks);
std::vector<ChunkPass> backward_passes(const std::vector<bool>& restores, size_t chunks);

// Returns the rows of one chunk of a whole micro-batch, as messages between stages have them. If it is the only chunk,
// `whole` moves.
ArenaTensor take_chunk(const ModelEnv&, ArenaTensor& whole, const DeviceBatch&, size_t chunk);
// Adds the rows of one chunk to those of a whole micro-batch, which is empty before the first.
void collect(const ModelEnv&, ArenaTensor part, const DeviceBatch&, size_t chunk, ArenaTensor& whole);

}  // namespace fp
