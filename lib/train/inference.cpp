#include "train/inference.h"

#include <algorithm>

#include "checkpoint/folder.h"
#include "config/load.h"
#include "train/setup.h"

namespace fp {
namespace {

// Plays what the loaded model will be asked to do without memory and returns what it needs.
size_t memory_needed(const ModelSection& section, const ModelOptions& options, const InferenceOptions& use,
                     CountingOps& ops, const Groups& groups) {
  Arena arena;
  Model model(section, options, ops, arena, groups);
  if (use.micro_batch > 0) {
    Batch b;
    b.resize(use.micro_batch, use.seq_len);
    b.doc_start.back() = 1;
    Executor(model, groups, {}).evaluate(b);
  }
  if (use.context > 0) {
    Decoder decoder(model, use.context);
    const std::vector<int32_t> prompt(static_cast<size_t>(use.context), 0);
    decoder.append(prompt);
  }
  return arena.peak();
}

}  // namespace

LoadedModel::LoadedModel(const std::filesystem::path& path) : checkpoint_(open_checkpoint_at(path)) {
  const TrainState state = checkpoint_.state();
  spec_ = parse_run_spec(state.config_yaml, (checkpoint_.folder() / "config.yaml").string());
  if (state.tokenizer_json.empty())
    throw DataError(fmt::format("{}: holds no tokenizer", checkpoint_.folder().string()));
  tokenizer_ = parse_tokenizer(state.tokenizer_json, (checkpoint_.folder() / "tokenizer.json").string());
}

void LoadedModel::load(const InferenceOptions& use, Ops& ops, CountingOps& counting, const Groups& groups) {
  ModelOptions options = model_options(spec_);
  options.content = ParamStore::Content::weights_only;
  options.recompute = Recompute::none;
  options.positions = std::max(use.context, use.seq_len);
  if (!use.precision.empty()) options.compute = compute_type({use.precision});
  if (spec_.model.family == Family::gpt && options.positions > spec_.model.max_position)
    throw ConfigError(fmt::format("a context of {} tokens is asked for, but this model's learned positions end at {}",
                                  options.positions, spec_.model.max_position));
  arena_ = std::make_unique<Arena>(memory_needed(spec_.model, options, use, counting, groups), true);
  model_ = std::make_unique<Model>(spec_.model, options, ops, *arena_, groups);
  checkpoint_.load(model_->params(), ops);
  executor_ = std::make_unique<Executor>(*model_, groups, executor_options(spec_));
}

}  // namespace fp
