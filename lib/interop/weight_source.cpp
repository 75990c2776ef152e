#include "interop/weight_source.h"

#include <algorithm>

#include "base/human_text.h"
#include "base/log.h"
#include "base/shown.h"
#include "config/compare_models.h"
#include "config/load.h"
#include "data/text/hf_chat_template.h"
#include "interop/grown_rows.h"
#include "interop/transfer.h"
#include "io/filesystem.h"
#include "io/retry.h"

namespace fp {

bool is_foreign_model(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ||
         (path_exists(path / "config.json") && !path_exists(path / CheckpointManifest::kFileName));
}

WeightSource::WeightSource(const std::filesystem::path& path, Checkpoint::Verify verify, Older older) : path_(path) {
  if (is_foreign_model(path)) {
    foreign_ = std::make_unique<ForeignModel>(path);
    spec_ = spec_of(*foreign_);
    state_.tokenizer_json = tokenizer_of(*foreign_);
    state_.carried = foreign_->carried();
    return;
  }
  checkpoint_ = open_checkpoint_at(path, verify, older);
  path_ = checkpoint_->folder();
  if (path_ != path && older != Older::allowed) advice_ = advice_on_older(path_, older);
  state_ = checkpoint_->state();
  spec_ = parse_stored_spec(state_.config_yaml, (path_ / CheckpointManifest::kConfigName).string());
}

std::string WeightSource::chat_template() const {
  const auto trained = state_.extra.find("chat_template");
  if (trained != state_.extra.end() && trained->is_string()) return trained->get<std::string>();
  const auto found = hf_chat_template(state_.carried);
  return found ? serialize(*found) : "";
}

std::string WeightSource::identity() const {
  if (foreign_) return foreign_->identity();
  const std::string manifest = serialize(checkpoint_->manifest());
  return hash_bytes(manifest.data(), manifest.size());
}

void require_same_model(const ModelSection& section, const WeightSource& source, bool changes_allowed) {
  const ModelSection& there = source.spec().model;
  const std::string where = source.path().string();
  if (const auto sizes = size_differences(section, there); !sizes.empty())
    throw ConfigError(fmt::format(
        "{}: its weights have other sizes than the model of this run:{}\nleave these keys out: model.init_from sets "
        "the sizes; only model.vocab may be larger, and so may max_position of learned positions",
        where, indented_lines(sizes)));
  if (section.vocab > there.vocab)
    log::info("model.vocab: {} ids of {}, and {} new ones whose rows begin as the mean of these", there.vocab, where,
              section.vocab - there.vocab);
  const std::vector<std::string> found = model_differences(section, there);
  if (found.empty()) return;
  const std::string text = fmt::format("{}: its weights compute something else under the settings of this run:{}",
                                       where, indented_lines(found));
  if (!changes_allowed)
    throw ConfigError(text + "\nleave these keys out, or set model.init_changes: true if the change is intended");
  log::warning("{}", text);
}

void require_same_ids(const std::string& key, const WeightSource& source, const Tokenizer& of_data,
                      bool changes_allowed) {
  if (source.tokenizer_json().empty()) return;
  const std::string where = source.path().string();
  const auto own = parse_tokenizer(source.tokenizer_json(), where);
  if (own->hash() == of_data.hash()) return;
  const auto text_of = [](const Tokenizer& t, int32_t id) {
    return t.special_text(id).empty() ? t.bytes_of(id) : t.special_text(id);
  };
  for (int32_t id = 0; id < std::min(own->vocab_size(), of_data.vocab_size()); ++id) {
    if (!own->is_id(id) || !of_data.is_id(id) || text_of(*own, id) == text_of(of_data, id)) continue;
    const std::string text = fmt::format(
        "{}: {}: its tokenizer differs from that of the data: id {} is \"{}\" for the model and \"{}\" in "
        "the data",
        key, where, id, shown(text_of(*own, id)), shown(text_of(of_data, id)));
    if (!changes_allowed)
      throw ConfigError(text +
                        "; prepare the data with the model's tokenizer (`fptrain data prepare --tokenizer PATH`), "
                        "or set model.init_changes: true if the change is intended");
    return log::warning("{}", text);
  }
  if (own->vocab_size() == of_data.vocab_size())
    log::warning(
        "{}: {}: its tokenizer has the ids of the data's but is another file, and may divide texts differently", key,
        where);
}

Fingerprints WeightSource::load(ParamStore& store, Ops& ops) const {
  try {
    return load_any(store, ops);
  } catch (const AccessError&) {
    throw;
  } catch (const DataError& e) {
    throw DataError(e.what() + advice_, e.code());
  }
}

Fingerprints WeightSource::load_any(ParamStore& store, Ops& ops) const {
  const ParamTable& table = store.table();
  if (!checkpoint_) {
    GrownRows grown(
        table, [&](const std::string& name) { return foreign_->shape_of(name); }, *foreign_);
    foreign_->require(grown.empty() ? table : foreign_->table());
    return load_weights_from(grown, store, ops);
  }
  const std::unique_ptr<TensorReader> stored = checkpoint_->tensors();
  GrownRows grown(
      table,
      [&](const std::string& name) {
        const CheckpointParam* p = checkpoint_->manifest().parameter(name);
        return p == nullptr ? std::optional<Shape>() : p->shape;
      },
      *stored);
  if (grown.empty()) return checkpoint_->load_weights(store, ops);
  checkpoint_->require(table, [&](const Param& p) { return grown.contains(p.name); });
  Fingerprints prints = load_weights_from(grown, store, ops);
  grown.subtract_from(prints);
  if (table.holds_everything()) check_fingerprints(*checkpoint_, table, prints);
  return prints;
}

}  // namespace fp
