// DPO's yardstick: the log-probability of every answer under the reference model, computed once and kept in a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/sampler.h"
#include "exec/executor.h"

namespace fp {

class ReferenceScores {
 public:
  // Of these samplers' answers; `identity` names data and reference model. validation may be null.
  ReferenceScores(const TrainSampler&, const ValidationSampler* validation, nlohmann::json identity);

  // Reads the file. False when there is none; DataError when it is damaged or of another identity.
  bool load(const std::filesystem::path&);
  // Runs every pair through the executor's model, `samples` at a time, and writes the file.
  void compute(Executor&, int64_t samples, const std::filesystem::path&);

  // Fills in batch.reference_logp: the batch holds the samplers' samples from `first` on.
  void attach(uint64_t first, Batch&) const;
  void attach_validation(uint64_t first, Batch&) const;

 private:
  std::vector<double> all() const;

  const TrainSampler& train_;
  const ValidationSampler* validation_;
  nlohmann::json identity_;
  std::vector<std::vector<double>> by_document_;  // of each training dataset; NaN: not sampled
  std::vector<double> held_out_;                  // two of each validation sample
};

}  // namespace fp
