// Arbitrary text as the files that a checkpoint carries from a Hugging Face folder, and as the manifest fields that
// exports read.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "config/load.h"
#include "interop/companions.h"
#include "interop/foreign_model.h"
#include "target.h"

namespace {

const fp::RunSpec& tiny_spec() {
  static const fp::RunSpec spec = fp::parse_run_spec(
      "model: {family: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_position: 32}\n", "spec");
  return spec;
}

// Calls everything that reads these files, as an export and text generation do.
void use(const fp::TrainState& state) {
  fp_fuzz::clear_scratch();
  fp_fuzz::accept_or_refuse([&] { fp::stop_ids_of(state); });
  fp_fuzz::accept_or_refuse(
      [&] { fp::stored_type(fp::carried_json(state.carried, fp::ForeignModel::kOriginName), "model.norm.weight"); });
  fp_fuzz::accept_or_refuse(
      [&] { fp::write_companions(fp_fuzz::scratch(), tiny_spec(), state, fp::ElementType::bf16); });
}

}  // namespace

FP_FUZZ_TARGET(carried_files) {
  fp_fuzz::silence_log();
  const std::string text(fp_fuzz::text_of(data, size));
  for (const std::string name : {"config.json", "generation_config.json", fp::ForeignModel::kOriginName}) {
    fp::TrainState state;
    state.carried[name] = text;
    use(state);
  }
  fp::TrainState state;
  state.tokenizer_json = text;  // refused, or used as the tokenizer
  use(state);
  state.tokenizer_json.clear();
  state.extra = nlohmann::json::parse(text, nullptr, false);
  if (state.extra.is_object() && !fp_fuzz::is_nested_deeply(text)) use(state);
  return 0;
}
