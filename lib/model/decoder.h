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

  // Makes every pass that a decoder of this capacity can make. On counting ops and a dry arena, their peaks are then
  // what any sequence of appends needs.
  static void dry_run(Model&, int64_t capacity);

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  // Throws DataError if a token is not an id of a vocabulary.
  static void check_ids(std::span<const int32_t> tokens, int64_t vocab);
  // Appends tokens and returns the logits of the last one, f32 [vocab] (masked ids at -infinity); valid until the next
  // call. Many tokens are passed through the model in several pieces (next_piece()). Throws as check_ids().
  std::span<const float> append(std::span<const int32_t> tokens);

 private:
  // Passes tokens through the model and returns the hidden states [n,h] after the last block.
  ArenaTensor pass(std::span<const int32_t> tokens);
  void compute_logits(ArenaTensor x);

  Model* model_;
  int64_t capacity_, length_ = 0;
  std::vector<ArenaTensor> keys_, values_;  // by layer, [capacity,K,d]
  std::vector<float> logits_;
};

}  // namespace fp
