// Decoder: token-by-token inference on one sequence with a key/value cache.
#pragma once

#include <span>
#include <vector>

#include "model/model.h"

namespace fp {

class Decoder {
 public:
  // `capacity`: length of the longest sequence, prompt included; the model's rotary tables must cover it.
  Decoder(Model&, int64_t capacity);

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  // Appends tokens and returns the logits of the last one, f32 [vocab] (masked ids at -infinity); valid until the next
  // call.
  std::span<const float> append(std::span<const int32_t> tokens);

 private:
  Model* model_;
  int64_t capacity_, length_ = 0;
  std::vector<ArenaTensor> keys_, values_;  // by layer, [capacity,K,d]
  std::vector<float> logits_;
};

}  // namespace fp
