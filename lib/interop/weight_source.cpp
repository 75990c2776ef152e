#include "interop/weight_source.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "checkpoint/folder.h"
#include "config/compare_models.h"
#include "config/load.h"
#include "interop/transfer.h"
#include "io/filesystem.h"

namespace fp {
namespace {

bool is_foreign(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ||
         (path_exists(path / "config.json") && !path_exists(path / CheckpointManifest::kFileName));
}

}  // namespace

WeightSource::WeightSource(const std::filesystem::path& path, Checkpoint::Verify verify) : path_(path) {
  if (is_foreign(path)) {
    foreign_ = std::make_unique<ForeignModel>(path);
    spec_ = spec_of(*foreign_);
    state_.tokenizer_json = tokenizer_of(*foreign_);
    state_.carried = foreign_->carried();
    return;
  }
  checkpoint_ = open_checkpoint_at(path, verify);
  path_ = checkpoint_->folder();
  state_ = checkpoint_->state();
  spec_ = parse_run_spec(state_.config_yaml, (path_ / CheckpointManifest::kConfigName).string());
}

std::string WeightSource::identity() const {
  if (foreign_) return foreign_->identity();
  const std::string manifest = serialize(checkpoint_->manifest());
  return hash_bytes(manifest.data(), manifest.size());
}

void require_same_model(const ModelSection& section, const WeightSource& source, bool changes_allowed) {
  const std::vector<std::string> found = model_differences(section, source.spec().model);
  if (found.empty()) return;
  const std::string text =
      fmt::format("{}: differs from the model of this run:\n  {}", source.path().string(), fmt::join(found, "\n  "));
  if (!changes_allowed)
    throw ConfigError(text + "\nuse it as model.preset, or set model.init_changes: true if this is intended");
  log::warning("{}", text);
}

Fingerprints WeightSource::load(ParamStore& store, Ops& ops) const {
  if (checkpoint_) return checkpoint_->load_weights(store, ops);
  foreign_->require(store.table());
  return load_weights_from(*foreign_, store, ops);
}

}  // namespace fp
