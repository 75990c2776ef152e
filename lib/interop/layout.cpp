#include "interop/layout.h"

#include <array>

#include "base/error.h"

namespace fp {
namespace {

StoredAs hf_gpt2(const Param& p) {
  StoredAs s{p.name == "lm_head.weight" ? p.name : "transformer." + p.name, Arrangement::same, {}};
  for (const char* conv1d : {"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"})
    if (p.name.ends_with(conv1d)) s.arrangement = Arrangement::transposed;
  return s;
}

StoredAs meta_llama(const Param& p) {
  struct Pair {
    const char *ours, *theirs;
  };
  static constexpr std::array<Pair, 12> kNames = {{{"model.embed_tokens.", "tok_embeddings."},
                                                   {"model.norm.", "norm."},
                                                   {"lm_head.", "output."},
                                                   {"self_attn.q_proj.", "attention.wq."},
                                                   {"self_attn.k_proj.", "attention.wk."},
                                                   {"self_attn.v_proj.", "attention.wv."},
                                                   {"self_attn.o_proj.", "attention.wo."},
                                                   {"mlp.gate_proj.", "feed_forward.w1."},
                                                   {"mlp.down_proj.", "feed_forward.w2."},
                                                   {"mlp.up_proj.", "feed_forward.w3."},
                                                   {"input_layernorm.", "attention_norm."},
                                                   {"post_attention_layernorm.", "ffn_norm."}}};
  StoredAs s{p.name, Arrangement::same, {}};
  for (const Pair& pair : kNames)
    if (const size_t at = s.name.find(pair.ours); at != std::string::npos)
      s.name.replace(at, std::string_view(pair.ours).size(), pair.theirs);
  if (s.name.starts_with("model.layers.")) s.name.erase(0, std::string_view("model.").size());
  if (p.name.find("q_proj") != std::string::npos || p.name.find("k_proj") != std::string::npos)
    s.arrangement = Arrangement::rotary_pairs;
  return s;
}

}  // namespace

StoredAs stored_as(WeightFormat format, const ModelSection& m, const Param& p) {
  StoredAs s{p.name, Arrangement::same, {}};
  if (format == WeightFormat::hf && m.family == Family::gpt) s = hf_gpt2(p);
  if (format == WeightFormat::meta) s = meta_llama(p);
  for (int i = 0; i < p.shape.rank(); ++i) s.shape.push_back(p.shape[i]);
  if (s.arrangement == Arrangement::transposed) std::swap(s.shape.at(0), s.shape.at(1));
  return s;
}

bool is_buffer(const std::string& name) {
  for (const char* suffix : {".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq", "rope.freqs"})
    if (name.ends_with(suffix)) return true;
  return name == "rope.freqs";
}

}  // namespace fp
