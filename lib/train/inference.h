// A trained model loaded for use: weights only, no gradients, no optimizer state.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/tokenizer.h"
#include "exec/executor.h"
#include "model/decoder.h"
#include "ops/counting.h"
#include "train/weight_source.h"

namespace fp {

struct InferenceOptions {
  std::string precision;    // bf16 | fp32; empty: as in training
  int64_t micro_batch = 0;  // > 0: memory for Executor::evaluate of this many samples of seq_len tokens
  int64_t seq_len = 0;
  int64_t context = 0;  // > 0: memory for a Decoder of this many positions
};

class LoadedModel {
 public:
  // Whatever WeightSource opens. Reads spec and tokenizer only.
  explicit LoadedModel(const std::filesystem::path&);
  // Allocates what `use` needs and loads the weights. ConfigError when the context is longer than the model's learned
  // positions reach.
  void load(const InferenceOptions& use, Ops&, CountingOps&, const Groups&);

  const RunSpec& spec() const { return source_.spec(); }
  const WeightSource& source() const { return source_; }
  // DataError when the model came without one.
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
