// KeyValues: keys and values of the chunks of a sequence in one layer, for one micro-batch, and in its backward pass
// their gradients.
//
// The queries of a chunk see the keys of its own and of earlier chunks. The forward pass takes chunks in order; the
// backward pass in reverse, so that a chunk's gradients are complete after the pass of its own queries. Both visit the
// chunks of keys from the queries' own to the first.
#pragma once

#include <vector>

#include "model/offloaded_tensor.h"

namespace fp {

class KeyValues {
 public:
  KeyValues() = default;
  // `offloaded`: chunks that are not in use are in host memory.
  KeyValues(const ModelEnv& env, size_t chunks, bool offloaded) : env_(&env), offloaded_(offloaded), chunks_(chunks) {}

  // Keys and values [B,C,K,d] of a chunk of C tokens.
  struct Pair {
    Tensor k, v;
  };
  // Allocates the keys and values [2B,length,K,d] of a chunk of `length` tokens.
  ArenaTensor allocate(int64_t samples, int64_t length) const;
  static Pair pair_of(const Tensor& both);

  // Stores the keys and values of a chunk. If the chunk had some already, the new ones are the same values, recomputed,
  // and no other chunk will need them.
  void put(size_t chunk, ArenaTensor both);
  // Starts to copy a chunk's keys and values, and with `gradients` the sum of their gradients, to the device.
  void fetch(size_t chunk, bool gradients);
  // Returns them on the device, and allows them to leave it again.
  Pair on_device(size_t chunk) { return pair_of(chunks_[chunk].both.on_device()); }
  void release(size_t chunk) { chunks_[chunk].both.release(); }

  // Adds to the gradients of an earlier chunk.
  void add_gradients(size_t chunk, ArenaTensor part);
  // Returns the gradients of a chunk, of which `part` is the last addend, in the compute type; forgets the chunk.
  ArenaTensor finish(size_t chunk, ArenaTensor part);
  void clear();

 private:
  struct Chunk {
    OffloadedTensor both;       // [2B,C,K,d]: keys, then values
    OffloadedTensor gradients;  // the same, in fp32; only those of later chunks, or all
  };
  const ModelEnv* env_ = nullptr;
  bool offloaded_ = false;
  std::vector<Chunk> chunks_;
  Departures departures_;
};

// Adds a part to a sum in fp32, which is empty before the first.
void add_part(const ModelEnv&, ArenaTensor& sum, ArenaTensor part);
// Returns a sum in fp32 in the compute type.
ArenaTensor rounded(const ModelEnv&, ArenaTensor sum);

}  // namespace fp
