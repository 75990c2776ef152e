#include "inference/inference.h"

#include <algorithm>

#include "base/log.h"
#include "dryrun/setup.h"

namespace fp {
size_t inference_bytes(const ModelSection& section, const ModelOptions& options, const ExecutorOptions& what,
                       const InferenceOptions& use, CountingOps& ops, const Groups& groups) {
  Arena arena;
  Model model(section, options, ops, arena, groups);
  if (use.micro_batch > 0) {
    Executor executor(model, what);
    Batch b;
    b.resize(use.micro_batch, use.seq_len);
    b.doc_start.back() = 1;
    executor.evaluate(std::span(&b, 1));
  }
  if (use.context > 0) Decoder::dry_run(model, use.context);
  return arena.peak();
}

LoadedModel::LoadedModel(const std::filesystem::path& path, Older older)
    : source_(path, Checkpoint::Verify::all_but_tensors, older) {
  if (!source_.tokenizer_json().empty())
    tokenizer_ = parse_tokenizer(source_.tokenizer_json(), (source_.path() / "tokenizer.json").string());
}

const Tokenizer& LoadedModel::tokenizer() const {
  if (!tokenizer_) throw DataError(fmt::format("{}: holds no tokenizer", source_.path().string()));
  return *tokenizer_;
}

void LoadedModel::load(const InferenceOptions& use, Ops& ops, CountingOps& counting, const Groups& groups) {
  ModelOptions options = model_options(spec());
  options.training = false;
  options.recompute = Recompute::none;
  options.offload_activations = options.offload_weights = false;
  options.positions = std::max(use.context, use.seq_len);
  constexpr int64_t kMostPositions = int64_t{1} << 27;
  if (options.positions > kMostPositions)
    throw ConfigError(
        fmt::format("a context of {} tokens was requested; legal: up to {}", options.positions, kMostPositions));
  if (use.precision) options.compute = *use.precision;
  const int64_t trained = spec().model.max_position;
  if (spec().model.traits().learned_positions && options.positions > trained)
    throw ConfigError(fmt::format("a context of {} tokens was requested, but this model's learned positions end at {}",
                                  options.positions, trained));
  if (options.positions > trained)
    log::warning(
        "the context of {} positions is over model.max_position = {}, up to which this model was trained: "
        "expect poor predictions beyond position {}",
        options.positions, trained, trained);
  // Default options: whatever objective the model was trained with, here it predicts tokens.
  ExecutorOptions what;
  what.loss.chunk_tokens = spec().memory.loss_chunk_tokens;
  const size_t bytes = inference_bytes(spec().model, options, what, use, counting, groups);
  ops.reserve_scratch(counting.scratch_bytes());
  arena_ = std::make_unique<Arena>(ops.allocate(bytes), bytes);
  model_ = std::make_unique<Model>(spec().model, options, ops, *arena_, groups);
  source_.load(model_->params(), ops);
  executor_ = std::make_unique<Executor>(*model_, what);
}

}  // namespace fp
