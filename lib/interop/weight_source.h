// The source of a model's weights: a checkpoint, or another program's files read in place.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/folder.h"
#include "config/run_spec.h"
#include "data/tokenizer/tokenizer.h"
#include "interop/companions.h"
#include "interop/foreign_model.h"

namespace fp {

class WeightSource {
 public:
  // Opens a checkpoint, a checkpoints folder or run directory (as open_checkpoint_at() does), a Hugging Face folder, a
  // .safetensors file with config.json beside it, or an llm.c model file. Reads no weights yet. `verify` applies to
  // checkpoints.
  explicit WeightSource(const std::filesystem::path&, Checkpoint::Verify verify = Checkpoint::Verify::all_but_tensors,
                        Older = Older::refused);

  // The spec of the training run; for another program's files the defaults with their model section.
  const RunSpec& spec() const { return spec_; }
  const std::filesystem::path& path() const { return path_; }
  int64_t step() const { return checkpoint_ ? checkpoint_->manifest().step : 0; }
  const std::string& tokenizer_json() const { return state_.tokenizer_json; }  // empty: none
  const std::map<std::string, std::string>& carried() const { return state_.carried; }

  // Returns the ids that end a generated text (stop_ids_of()).
  std::vector<int32_t> stop_ids() const { return stop_ids_of(state_); }

  // Returns the chat template (ChatOptions::format) of the conversations that the model was trained on, else that of
  // its tokenizer's files; "" if neither is known. Throws ConfigError for a template of these files that cannot be
  // used.
  std::string chat_template() const;

  // Returns a hash that changes with the weights.
  std::string identity() const;

  // Loads the weights into the store and sets the moments to 0. Rows of a larger vocabulary or of longer learned
  // positions become the mean of the source's rows (GrownRows). Throws DataError when the parameters differ otherwise
  // from the store's, or when the store holds the whole model and the loaded values are not those that were saved.
  // Returns the fingerprints of the parameters that this rank owns, without such rows.
  Fingerprints load(ParamStore&, Ops&) const;
  // Nothing for another program's files.
  const std::optional<Checkpoint>& checkpoint() const { return checkpoint_; }

 private:
  Fingerprints load_any(ParamStore&, Ops&) const;

  std::filesystem::path path_;
  std::optional<Checkpoint> checkpoint_;
  std::string advice_;  // if the checkpoint turns out to be damaged
  std::unique_ptr<ForeignModel> foreign_;
  RunSpec spec_;
  TrainState state_;  // for another program's files: only the tokenizer and the carried files
};

// Throws ConfigError naming every size of the section that the source's weights do not have, and every setting under
// which they compute something else than in the source; with `changes_allowed` logs a warning for the latter instead.
// Logs by how much the vocabulary grows.
void require_same_model(const ModelSection&, const WeightSource&, bool changes_allowed);

// Throws ConfigError naming the first id that stands for another text in the source's tokenizer than in that of the
// data; with `changes_allowed` logs a warning instead. `key` names the source in messages. Ids that only one of them
// has are no difference: a vocabulary may grow. Logs a warning when the two have the same ids but are not the same
// file. Checks nothing when the source has no tokenizer.
void require_same_ids(const std::string& key, const WeightSource&, const Tokenizer& of_data, bool changes_allowed);

// Returns whether a path holds another program's model and not a checkpoint or a run directory.
bool is_foreign_model(const std::filesystem::path&);

}  // namespace fp
