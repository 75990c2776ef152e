#include "inference/inference.h"

#include <algorithm>

#include "dryrun/setup.h"

namespace fp {
namespace {

// Returns the bytes that the model needs for `use`, found by a dry run.
size_t memory_needed(const ModelSection& section, const ModelOptions& options, const ExecutorOptions& what,
                     const InferenceOptions& use, CountingOps& ops, const Groups& groups) {
  Arena arena;
  Model model(section, options, ops, arena, groups);
  if (use.micro_batch > 0) {
    Batch b;
    b.resize(use.micro_batch, use.seq_len);
    b.doc_start.back() = 1;
    Executor(model, what).evaluate(std::span(&b, 1));
  }
  if (use.context > 0) {
    Decoder decoder(model, use.context);
    const std::vector<int32_t> prompt(static_cast<size_t>(use.context), 0);
    decoder.append(prompt);
  }
  return arena.peak();
}

}  // namespace

LoadedModel::LoadedModel(const std::filesystem::path& path) : source_(path) {
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
  options.positions = std::max(use.context, use.seq_len);
  if (use.precision) options.compute = *use.precision;
  if (spec().model.family == Family::gpt && options.positions > spec().model.max_position)
    throw ConfigError(fmt::format("a context of {} tokens was requested, but this model's learned positions end at {}",
                                  options.positions, spec().model.max_position));
  // Default options: whatever objective the model was trained with, here it predicts tokens.
  ExecutorOptions what;
  what.loss.chunk_tokens = spec().memory.loss_chunk_tokens;
  const size_t bytes = memory_needed(spec().model, options, what, use, counting, groups);
  ops.reserve_scratch(counting.scratch_bytes());
  arena_ = std::make_unique<Arena>(ops.allocate(bytes), bytes);
  model_ = std::make_unique<Model>(spec().model, options, ops, *arena_, groups);
  source_.load(model_->params(), ops);
  executor_ = std::make_unique<Executor>(*model_, what);
}

}  // namespace fp
