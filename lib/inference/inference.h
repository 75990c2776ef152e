// Loads a trained model for inference: weights only, without gradients and optimizer state.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/tokenizer/tokenizer.h"
#include "exec/executor.h"
#include "interop/weight_source.h"
#include "model/decoder.h"
#include "ops/counting.h"

namespace fp {

struct InferenceOptions {
  std::optional<DType> precision;  // default: as in training
  int64_t micro_batch = 0;         // > 0: memory for Executor::evaluate of this many samples of seq_len tokens
  int64_t seq_len = 0;
  int64_t context = 0;  // > 0: memory for a Decoder of this many positions
};

// Returns the bytes of the arena for every call that `use` allows, found by a dry run of all of them.
size_t inference_bytes(const ModelSection&, const ModelOptions&, const ExecutorOptions&, const InferenceOptions& use,
                       CountingOps&, const Groups&);

class LoadedModel {
 public:
  // `path` is anything that WeightSource opens. Reads the run spec and the tokenizer only.
  explicit LoadedModel(const std::filesystem::path&, Older = Older::refused);
  // Allocates the memory that `use` needs and loads the weights. Throws ConfigError when the context has over 2^27
  // positions, or more than the model's learned position embedding. Warns of a context that is longer than what the
  // model was trained for.
  void load(const InferenceOptions& use, Ops&, CountingOps&, const Groups&);

  const RunSpec& spec() const { return source_.spec(); }
  const WeightSource& source() const { return source_; }
  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  // Throws DataError when the model has no tokenizer.
  const Tokenizer& tokenizer() const;
  Model& model() { return *model_; }
  Executor& executor() { return *executor_; }

 private:
  WeightSource source_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace fp
