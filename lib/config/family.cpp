#include "config/family.h"

#include <string>

namespace fp {
namespace {

// In the order of the enumerators of Family.
const std::vector<FamilyTraits>& rows() {
  static const std::vector<FamilyTraits> list = {
      {.name = "gpt",
       .models = "GPT-2 and GPT-3 (LayerNorm, biases, learned positions, GELU)",
       .norm = NormKind::layernorm,
       .mlp = MlpKind::gelu,
       .qkv = QkvLayout::blocked,
       .bias = true,
       .learned_positions = true,
       .shared_kv_heads = false,
       .rope = {RopeKind::none}},
      {.name = "llama",
       .models = "Llama 2, 3, 3.1 and 3.2 (RMSNorm, rotary, SwiGLU)",
       .own_head_dim = true,
       .rope = {RopeKind::standard, RopeKind::linear, RopeKind::llama3},
       .hf_lists_message_ends = true},
      {.name = "phi3",
       .models = "phi-3 mini and medium (as llama, with sliding window and longrope)",
       .qkv = QkvLayout::blocked,
       .sliding_window = true,
       .rope = {RopeKind::standard, RopeKind::longrope},
       .hf_pads_with_end = true,
       .hf_lists_message_ends = true},
      {.name = "phi3small",
       .models = "phi-3-small (LayerNorm, biases, blocksparse attention, gegelu, muP multipliers)",
       .norm = NormKind::layernorm,
       .mlp = MlpKind::gegelu,
       .qkv = QkvLayout::grouped,
       .bias = true,
       .blocksparse = true,
       .multipliers = true,
       .rope = {RopeKind::standard, RopeKind::longrope},
       .hf_masked_ids = true},
      {.name = "qwen2",
       .models = "Qwen2 and Qwen2.5 (as llama, with biases of queries, keys and values)",
       .qkv_bias = true,
       .rope = {RopeKind::standard},
       .hf_lists_message_ends = true},
      {.name = "mistral",
       .models = "Mistral 7B (as llama, with sliding window)",
       .own_head_dim = true,
       .sliding_window = true,
       .rope = {RopeKind::standard},
       .hf_lists_message_ends = true},
      {.name = "qwen3",
       .models = "Qwen3, dense (as llama, with norms of queries and keys)",
       .qk_norm = true,
       .own_head_dim = true,
       .rope = {RopeKind::standard},
       .hf_lists_message_ends = true},
  };
  return list;
}

}  // namespace

EnumNames names_of(Family) {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const FamilyTraits& t : rows()) list.push_back(t.name);
    return list;
  }();
  return names;
}

const FamilyTraits& traits_of(Family family) { return rows()[static_cast<size_t>(family)]; }

std::string_view describe_families() {
  static const std::string text = [] {
    std::string s;
    for (const FamilyTraits& t : rows())
      s += (s.empty() ? "`" : ". `") + std::string(t.name) + "`: " + std::string(t.models);
    return s + ".";
  }();
  return text;
}

}  // namespace fp
