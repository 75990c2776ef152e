// DPO's reference scores: the log-probability of every answer under the reference model, computed once and stored in
// two files of the run directory, one for the training data and one for the held-out data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "data/sampling/sampler.h"
#include "exec/executor.h"

namespace fp {

class ReferenceScores {
 public:
  // For the answers of these samplers, which must outlive this; `validation` may be null. Stored scores are valid only
  // for equal identities, which describe the data and the precision.
  ReferenceScores(const TrainSampler&, const ValidationSampler* validation, nlohmann::json train_identity,
                  nlohmann::json validation_identity);

  // Reads the scores of this identity and, unless `source` is nullopt (any), of this reference model from the folder.
  // Returns whether all scores were found. Damaged files and those of other data or models count as missing, with a
  // warning; what one rank of the world does not find counts as missing on all.
  bool load(const std::filesystem::path& folder, const std::optional<std::string>& source, Group& world);
  // Computes the missing scores with the executor's model, `samples` pairs at a time. All ranks call it; the `writer`
  // stores the result in the folder, and every few minutes what there is: after an interruption, load() with the same
  // `source` finds it, and the rest is computed.
  void compute(Executor&, int64_t samples, const std::filesystem::path& folder, const std::string& source,
               bool writer = true);

  // Returns the identity of the reference model of the scores, once they are loaded or computed.
  const std::string& source() const { return training_.source; }

  // Fill in batch.reference_logp of a batch that holds the sampler's samples from index `first` on.
  void attach(uint64_t first, Batch&) const;
  void attach_validation(uint64_t first, Batch&) const;

 private:
  struct Part {
    const char* file;
    nlohmann::json identity;
    std::vector<double> values;
    bool ready = false;
    std::string source = {};  // of `values`, once there are any
  };
  bool read(const std::filesystem::path& folder, Part&, const std::optional<std::string>& source) const;
  void write(const std::filesystem::path& folder, const Part&, const std::string& source, bool partial) const;
  uint64_t scored() const;
  void score_training(Executor&, int64_t samples, const std::function<void()>& save);
  void score_held_out(Executor&, int64_t samples);

  const TrainSampler& train_;
  const ValidationSampler* validation_;
  std::vector<uint64_t> first_document_;  // index in training_.values where each training dataset begins
  Part training_, held_out_;  // training: by document (NaN: not sampled, or not scored yet); held-out: two per sample
  uint64_t begin_ = 0;        // pairs of the training data that load() has found scored, before the first that is not
};

}  // namespace fp
