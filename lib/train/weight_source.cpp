#include "train/weight_source.h"

#include "checkpoint/folder.h"
#include "config/load.h"
#include "interop/transfer.h"

namespace fp {
namespace {

bool is_foreign(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ||
         (std::filesystem::exists(path / "config.json", error) &&
          !std::filesystem::exists(path / CheckpointManifest::kFileName, error));
}

}  // namespace

WeightSource::WeightSource(const std::filesystem::path& path) : path_(path) {
  if (is_foreign(path)) {
    foreign_ = std::make_unique<ForeignModel>(path);
    spec_ = spec_of(*foreign_);
    state_.tokenizer_json = tokenizer_of(*foreign_);
    state_.carried = foreign_->carried();
    return;
  }
  checkpoint_ = open_checkpoint_at(path);
  path_ = checkpoint_->folder();
  state_ = checkpoint_->state();
  spec_ = parse_run_spec(state_.config_yaml, (path_ / CheckpointManifest::kConfigName).string());
}

void WeightSource::load(ParamStore& store, Ops& ops) const {
  if (checkpoint_) return checkpoint_->load_weights(store, ops);
  foreign_->require(store.table());
  load_weights_from(*foreign_, store, ops);
}

}  // namespace fp
