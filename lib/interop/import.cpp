#include <algorithm>

#include "base/error.h"
#include "config/load.h"
#include "config/preset.h"
#include "data/tokenizer/tokenizer.h"
#include "interop/companions.h"
#include "interop/transfer.h"
#include "interop/weight_source.h"
#include "io/filesystem.h"
#include "io/pending.h"
#include "io/storage.h"
#include "model/architecture.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
    if (path_exists(folder / name)) return true;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tiktoken") return true;
  return false;
}

}  // namespace

RunSpec spec_of(const ForeignModel& model) {
  RunSpec spec;
  spec.model = model.section();
  const std::string label = fs::absolute(model.path()).lexically_normal().filename().string();
  spec.run.name = spec.model.name = label.empty() ? "imported" : label;
  spec.data.seq_len = std::min(spec.data.seq_len, spec.model.max_position);
  resolve(spec);
  return spec;
}

std::string tokenizer_of(const ForeignModel& model) {
  return has_tokenizer(model.folder()) ? load_tokenizer(model.folder().string())->serialized() : std::string();
}

// Throws ConfigError for a run directory, a checkpoints folder or a checkpoint of fptrain.
void refuse_own_files(const fs::path& from) {
  if (!path_exists(from) || is_foreign_model(from) || model_description_at(from).extension() != ".yaml") return;
  throw ConfigError(
      fmt::format("--from {}: holds checkpoints of fptrain, which need no import: name it in model.init_from or with "
                  "--checkpoint; `fptrain checkpoint export` writes it for other programs",
                  from.string()));
}

void import_model(const ImportOptions& o) {
  std::error_code error;
  if (fs::exists(o.to, error))
    throw ConfigError(fmt::format("--to {}: exists already; choose another name", o.to.string()));
  refuse_own_files(o.from);
  ForeignModel model(o.from, o.source);
  ParamTable table;
  declare_parameters(model.section(), table);
  model.require(table);

  RunSpec spec = spec_of(model);
  if (o.sliding_window >= 0) spec.model.sliding_window = o.sliding_window;
  TrainState state;
  state.config_yaml = dump(spec);
  parse_stored_spec(state.config_yaml, "");  // a checkpoint must be readable: names that are not text, too many ids
  state.carried = model.carried();
  if (o.sliding_window >= 0) {
    auto origin = carried_json(state.carried, ForeignModel::kOriginName);
    origin["sliding_window"] = o.sliding_window;  // config.json keeps the published value for exports
    state.carried[ForeignModel::kOriginName] = origin.dump(2) + "\n";
  }
  if (o.tokenizer) state.tokenizer_json = tokenizer_of(model);
  state.extra = {{"imported_from", fs::absolute(o.from).lexically_normal().filename().string()}};

  // save_weights() names the checkpoint after its step, so it is written into a temporary folder and then renamed.
  const fs::path to = fs::absolute(o.to).lexically_normal();
  const PendingFolder staging(to);
  storage::rename(save_weights(staging.path(), table, model, state, {"fptrain " + o.version, Mesh(), 0}), to);
}

}  // namespace fp
