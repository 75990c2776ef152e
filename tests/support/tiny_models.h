// Tiny models of every family, with all features of the family enabled, and random batches for them.
#pragma once

#include <string>
#include <vector>

#include "config/run_spec.h"
#include "data/sampling/batch.h"

namespace fp::test {

inline const std::vector<std::string>& tiny_names() {
  static const std::vector<std::string> names = {"gpt",       "llama", "llama3",  "phi3", "phi3-longrope",
                                                 "phi3small", "qwen2", "mistral", "qwen3"};
  return names;
}

// All have an odd vocabulary (padded), 2 or 3 layers, 16 or 24 hidden columns.
inline ModelSection tiny_model(const std::string& name) {
  ModelSection m;
  m.layers = 2;
  m.hidden = 16;
  m.heads = m.kv_heads = 4;
  m.head_dim = 4;
  m.ffn = 24;
  m.vocab = 37;
  m.pad_vocab_to = 8;
  m.max_position = 32;
  m.init_std = 0.3;  // large enough that every part of the model matters to the loss
  if (name == "gpt") {
    m.family = Family::gpt;
    m.rope.kind = RopeKind::none;
  } else if (name == "llama" || name == "llama3") {
    m.family = Family::llama;
    m.kv_heads = 2;
    m.tied_embeddings = name == "llama3";
    if (name == "llama3") {
      m.rope.kind = RopeKind::llama3;
      m.rope.factor = 8;
      m.rope.original_max_position = 16;
    }
  } else if (name == "mistral") {
    m.family = Family::mistral;
    m.kv_heads = 2;
    m.head_dim = 6;
    m.tied_embeddings = false;
    m.sliding_window = 7;
  } else if (name == "qwen3") {
    m.family = Family::qwen3;
    m.kv_heads = 2;
    m.head_dim = 6;
  } else if (name == "qwen2") {
    m.family = Family::qwen2;
    m.kv_heads = 2;
    m.tied_embeddings = false;
  } else if (name == "phi3" || name == "phi3-longrope") {
    m.family = Family::phi3;
    m.kv_heads = 2;
    m.tied_embeddings = false;
    m.sliding_window = 5;
    if (name == "phi3-longrope") {
      m.rope.kind = RopeKind::longrope;
      m.rope.original_max_position = 8;
      m.rope.short_factor = {1.0, 1.1};
      m.rope.long_factor = {1.5, 3.0};
    }
  } else {
    m.family = Family::phi3small;
    m.layers = 3;
    m.kv_heads = 2;
    m.blocksparse = {2, 2, 3, 2, false};
    m.mup = {10.0, 8.0, 1.0};
    m.masked_ids = {3, 35};
    m.rope.theta = 1e6;
  }
  return m;
}

// Returns n random rows of `length` tokens, with some targets ignored and sample ids from seed * 1000 on. masked: two
// documents per row.
inline Batch random_batch(const ModelSection& m, int64_t n, int64_t length, uint64_t seed, bool masked = false) {
  Batch b;
  b.resize(n, length);
  uint64_t state = seed;
  const auto draw = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int32_t>((state >> 33) % below);
  };
  const auto legal = [&] {
    for (;;) {
      const int32_t id = draw(static_cast<uint64_t>(m.vocab));
      bool dead = false;
      for (const int64_t x : m.masked_ids) dead = dead || x == id;
      if (!dead) return id;
    }
  };
  for (int64_t i = 0; i < n * length; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto t = static_cast<int32_t>(i % length), split = static_cast<int32_t>(length / 2);
    b.tokens[at] = legal();
    b.targets[at] = draw(7) == 0 ? kIgnoredTarget : legal();
    b.target_bytes += b.targets[at] != kIgnoredTarget ? 3 : 0;
    b.doc_start[at] = masked && t >= split ? split : 0;
    b.positions[at] = t - b.doc_start[at];
  }
  for (int64_t i = 0; i < n; ++i) b.sample_ids[static_cast<size_t>(i)] = seed * 1000 + static_cast<uint64_t>(i);
  return b;
}

}  // namespace fp::test
