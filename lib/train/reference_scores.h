// DPO's yardstick: the log-probability of every answer under the reference model, computed once and kept in two files
// of the run directory, one for the training data and one for the held-out data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "data/sampler.h"
#include "exec/executor.h"

namespace fp {

class ReferenceScores {
 public:
  // Of these samplers' answers; validation may be null. The identities say what makes scores valid: data, precision.
  ReferenceScores(const TrainSampler&, const ValidationSampler* validation, nlohmann::json train_identity,
                  nlohmann::json validation_identity);

  // Reads what the folder holds of this identity and, unless `source` is empty (any), of this reference model. Whether
  // that is everything; what is damaged or of something else counts as absent, with a warning, and what a rank of the
  // world does not find, on all.
  bool load(const std::filesystem::path& folder, const std::optional<std::string>& source, Group& world);
  // Runs the pairs that have no scores yet through the executor's model, `samples` at a time. All ranks do; one of them
  // is the writer, who keeps them in the folder.
  void compute(Executor&, int64_t samples, const std::filesystem::path& folder, const std::string& source,
               bool writer = true);

  // Fills in batch.reference_logp: the batch holds the samplers' samples from `first` on.
  void attach(uint64_t first, Batch&) const;
  void attach_validation(uint64_t first, Batch&) const;

 private:
  struct Part {
    const char* file;
    nlohmann::json identity;
    std::vector<double> values;
    bool ready = false;
  };
  bool read(const std::filesystem::path& folder, Part&, const std::optional<std::string>& source) const;
  void write(const std::filesystem::path& folder, const Part&, const std::string& source) const;
  void score_training(Executor&, int64_t samples);
  void score_held_out(Executor&, int64_t samples);

  const TrainSampler& train_;
  const ValidationSampler* validation_;
  std::vector<uint64_t> first_document_;  // of each training dataset, in training_.values
  Part training_, held_out_;              // by document (NaN: not sampled); two of each validation sample
};

}  // namespace fp
