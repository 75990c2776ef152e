#include "train/setup.h"

namespace fp {

DType compute_type(const PrecisionSection& p) { return p.compute == "bf16" ? DType::bf16 : DType::f32; }

Recompute recompute_policy(const MemorySection& m) {
  return m.recompute == "full" ? Recompute::full : m.recompute == "selective" ? Recompute::selective : Recompute::none;
}

ModelSection with_vocab(const ModelSection& section, int64_t tokenizer_vocab) {
  ModelSection m = section;
  if (m.vocab == 0) m.vocab = tokenizer_vocab;
  return m;
}

ModelOptions model_options(const RunSpec& spec) {
  ModelOptions o;
  o.compute = compute_type(spec.precision);
  o.gradients = spec.precision.gradients == "bf16" ? DType::bf16 : DType::f32;
  o.zero_stage = static_cast<int>(spec.parallel.zero_stage);
  o.megatron_sp = spec.parallel.megatron_sp;
  o.recompute = recompute_policy(spec.memory);
  o.seed = spec.run.seed;
  o.positions = spec.data.seq_len;
  return o;
}

ExecutorOptions executor_options(const RunSpec& spec) {
  ExecutorOptions o{spec.train.z_loss, spec.memory.loss_chunk_tokens};
  if (spec.precision.stochastic_rounding) o.rounding_seed = spec.run.seed;
  if (spec.train.objective == "dpo") o.dpo = spec.train.dpo;
  return o;
}

std::string describe_model(const ModelSection& m) {
  constexpr const char* families[] = {"gpt", "llama", "phi3", "phi3small"};
  const std::string kv = m.kv_heads != m.heads ? fmt::format(" ({} kv)", m.kv_heads) : "";
  return fmt::format("{}, {} layers x {}, {} heads{} of {}, ffn {}, vocabulary {}",
                     families[static_cast<int>(m.family)], m.layers, m.hidden, m.heads, kv, m.head_dim, m.ffn, m.vocab);
}

}  // namespace fp
