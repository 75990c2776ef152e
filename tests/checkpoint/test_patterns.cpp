// The patterns of universal checkpoints for partitioned models.
#include "config/load.h"
#include "fixture.h"
#include "model/architecture.h"
#include "train/universal_patterns.h"

namespace fp::test {
namespace {

std::map<std::string, std::string> patterns_of(const std::string& model, const Mesh& mesh) {
  const MemoryFolder dir;
  const RunSpec spec = parse_run_spec("model: " + model, "test");
  ParamTable table;
  declare_parameters(spec.model, table);
  State state(table, DType::f32, false);
  state.fill(1);
  TrainState about = some_state(1);
  about.config_yaml = dump(spec);
  std::map<std::string, std::string> texts;
  const auto path = save_checkpoint(dir.path, state.store, *state.ops, about, {"test", mesh, 0});
  for (const auto& [name, pattern] : universal_patterns(Checkpoint::open(path))) texts[name] = pattern.text();
  CHECK(texts.size() == table.size());
  return texts;
}

TEST_CASE("patterns of a tied model on a pipeline of tensor-parallel ranks") {
  auto of =
      patterns_of("{family: gpt, layers: 2, hidden: 12, heads: 6, vocab: 131, pad_vocab_to: 8}", Mesh(2, 1, 1, 4, 8));
  CHECK(of["wte.weight"] == "fragment dim 0, vocabulary 131 padded to 136, on the first and last stage");
  CHECK(of["wpe.weight"] == "replicated");
  CHECK(of["h.0.ln_1.weight"] == "replicated");
  CHECK(of["h.0.attn.c_attn.weight"] == "fragment dim 0 in 12+12+12");
  CHECK(of["h.1.attn.c_attn.bias"] == "fragment dim 0 in 12+12+12");
  CHECK(of["h.1.attn.c_proj.weight"] == "fragment dim 1");
  CHECK(of["h.1.attn.c_proj.bias"] == "replicated");
}

TEST_CASE("universal patterns cover fused projections and replicated kv heads") {
  auto of = patterns_of(
      "{family: phi3, layers: 1, hidden: 24, heads: 6, kv_heads: 2, ffn: 20, vocab: 128, pad_vocab_to: 8, "
      "tied_embeddings: false}",
      Mesh(1, 1, 1, 4, 4));
  CHECK(of["model.layers.0.self_attn.qkv_proj.weight"] == "fragment dim 0 in 24+8+8, with copies");
  CHECK(of["model.layers.0.mlp.gate_up_proj.weight"] == "fragment dim 0 in 20+20");
  CHECK(of["model.layers.0.mlp.down_proj.weight"] == "fragment dim 1");
  CHECK(of["lm_head.weight"] == "fragment dim 0");
}

TEST_CASE("without tensor parallelism each parameter has one owner") {
  for (const auto& [name, text] :
       patterns_of("{family: gpt, layers: 1, hidden: 12, heads: 6, vocab: 128}", Mesh(1, 4, 1, 1, 4)))
    CHECK(text == "unique");
}

TEST_CASE("a checkpoint whose run spec does not match its model has no patterns") {
  const MemoryFolder dir;
  State state(small_table());
  CHECK(universal_patterns(Checkpoint::open(save(dir.path, state, 1, 1))).empty());
}

}  // namespace
}  // namespace fp::test
