// Where a model's weights come from: a checkpoint of ours, or another program's files read in place.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/run_spec.h"
#include "interop/companions.h"
#include "interop/foreign_model.h"

namespace fp {

class WeightSource {
 public:
  // A checkpoint, a checkpoints folder or run directory (the newest good one), a Hugging Face folder, a .safetensors
  // file with config.json beside it, an llm.c model file. Reads no weights yet. `verify` is for checkpoints.
  explicit WeightSource(const std::filesystem::path&, Checkpoint::Verify verify = Checkpoint::Verify::all_but_tensors);

  const RunSpec& spec() const { return spec_; }  // of the training run, or defaults around the foreign model
  const std::filesystem::path& path() const { return path_; }
  int64_t step() const { return checkpoint_ ? checkpoint_->manifest().step : 0; }
  const std::string& tokenizer_json() const { return state_.tokenizer_json; }  // empty: none
  const std::map<std::string, std::string>& carried() const { return state_.carried; }

  // Ids that end a generated text (stop_ids_of).
  std::vector<int32_t> stop_ids() const { return stop_ids_of(state_); }

  // Changes when the weights do.
  std::string identity() const;

  // The weights; moments become 0. DataError when the parameters are not the store's, or where it holds the whole model
  // not what was saved. Returns the fingerprints of what this rank owns.
  Fingerprints load(ParamStore&, Ops&) const;
  const std::optional<Checkpoint>& checkpoint() const { return checkpoint_; }  // nothing: another program's files

 private:
  std::filesystem::path path_;
  std::optional<Checkpoint> checkpoint_;
  std::unique_ptr<ForeignModel> foreign_;
  RunSpec spec_;
  TrainState state_;  // of another program's files: the tokenizer and what they carry
};

// ConfigError naming every setting by which the section would make something else of the source's weights than the
// source's own description does; with `changes_allowed` a warning.
void require_same_model(const ModelSection&, const WeightSource&, bool changes_allowed);

}  // namespace fp
