// A trained model loaded for use: weights only, no gradients, no optimizer state.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"
#include "exec/executor.h"
#include "model/decoder.h"
#include "ops/counting.h"

namespace fp {

struct InferenceOptions {
  std::string precision;    // bf16 | fp32; empty: as in training
  int64_t micro_batch = 0;  // > 0: memory for Executor::evaluate of this many samples of seq_len tokens
  int64_t seq_len = 0;
  int64_t context = 0;  // > 0: memory for a Decoder of this many positions
};

class LoadedModel {
 public:
  // A checkpoint, a checkpoints folder or a run directory (the newest good one). Reads spec and tokenizer only.
  explicit LoadedModel(const std::filesystem::path&);
  // Allocates what `use` needs and loads the weights. ConfigError when the context is longer than the model's learned
  // positions reach.
  void load(const InferenceOptions& use, Ops&, CountingOps&, const Groups&);

  const RunSpec& spec() const { return spec_; }  // of the training run
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Model& model() { return *model_; }
  Executor& executor() { return *executor_; }

 private:
  Checkpoint checkpoint_;
  RunSpec spec_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace fp
