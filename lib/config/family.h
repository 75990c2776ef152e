// The model families. A family is a row of traits: how its models differ from those of other families. Code outside
// lib/config and lib/model/families asks for a trait, never for the family.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "config/choices.h"

namespace fp {

enum class Family { gpt, llama, phi3, phi3small, qwen2, mistral, qwen3 };
EnumNames names_of(Family);

// layernorm has gain and bias, rmsnorm a gain only.
enum class NormKind : uint8_t { layernorm, rmsnorm };

// Activation of the MLP. The gated ones take two inputs for each output.
enum class MlpKind : uint8_t { gelu, swiglu, gegelu };

// Layout of the QKV projection: three weights, one weight [Q | K | V], or one weight interleaved by kv head.
enum class QkvLayout : uint8_t { separate, blocked, grouped };

struct FamilyTraits {
  std::string_view name;    // as in run specs
  std::string_view models;  // its models and what sets them apart, for the reference of run specs
  NormKind norm = NormKind::rmsnorm;
  MlpKind mlp = MlpKind::swiglu;
  QkvLayout qkv = QkvLayout::separate;
  bool bias = false;                // on every linear layer but the LM head
  bool qkv_bias = false;            // on the QKV projection only
  bool qk_norm = false;             // queries and keys of each head are normalised before the rotation
  bool learned_positions = false;   // instead of rotary ones
  bool shared_kv_heads = true;      // a kv head may serve several query heads
  bool own_head_dim = false;        // heads * head_dim may differ from hidden
  bool sliding_window = false;      // model.sliding_window is legal
  bool blocksparse = false;         // model.blocksparse, and dense layers between the blocksparse ones
  bool multipliers = false;         // model.mup, model.gegelu_limit and model.rope.position_scale are legal
  std::vector<RopeKind> rope = {};  // legal position encodings; the first one is the default
  // config.json of its Hugging Face class: masked ids can be expressed, padding is the end of text, and a model tuned
  // on conversations lists the ids that end a message.
  bool hf_masked_ids = false, hf_pads_with_end = false, hf_lists_message_ends = false;

  bool has_qkv_bias() const { return bias || qkv_bias; }
  bool gated() const { return mlp != MlpKind::gelu; }
};

const FamilyTraits& traits_of(Family);

// Returns `name`: models for each family, as the documentation of model.family.
std::string_view describe_families();

}  // namespace fp
