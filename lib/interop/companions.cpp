#include "interop/companions.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "config/hf/hf_config.h"
#include "interop/foreign_model.h"
#include "io/filesystem.h"
#include "io/json.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kSpecialIds[] = {"bos_token_id", "eos_token_id", "pad_token_id"};

bool is_tokenizer_vocabulary(const fs::path& name) {
  return name == "tokenizer.json" || name == "tokenizer.model" || name == "vocab.json" ||
         name.extension() == ".tiktoken";
}
bool is_tokenizer_file(const fs::path& name) {
  static const std::set<std::string> kBeside = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                                "merges.txt", "chat_template.jinja"};
  return is_tokenizer_vocabulary(name) || kBeside.contains(name.string());
}

bool carries_tokenizer(const CarriedFiles& carried) {
  return std::any_of(carried.begin(), carried.end(), [](const auto& f) { return is_tokenizer_vocabulary(f.first); });
}

void append_new(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  for (const int32_t id : more)
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

std::vector<int32_t> carried_stop_ids(const CarriedFiles& carried) {
  for (const char* name : {kGeneration, kConfig})
    if (std::vector<int32_t> ids = eos_ids(carried_json(carried, name), name); !ids.empty()) return ids;
  return {};
}

std::vector<int32_t> message_ends(const TrainState& state) {
  const auto found = state.extra.find("end_of_message_ids");
  if (found == state.extra.end()) return {};
  OrderedJson ids;
  ids["eos_token_id"] = OrderedJson(*found);
  return eos_ids(ids, "end_of_message_ids");
}

// Sets eos_token_id to the ids that end a message, then those it had, then the end-of-text token.
void add_message_ends(const TrainState& state, const Tokenizer& tokenizer, const char* file, OrderedJson& config) {
  std::vector<int32_t> ids = message_ends(state);
  if (ids.empty()) return;
  append_new(ids, eos_ids(config, file));
  append_new(ids, {tokenizer.eot()});
  config["eos_token_id"] = ids;
}

// Returns whether every id has the same bytes in both.
bool same_vocabulary(const Tokenizer& a, const Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) return false;
  for (int32_t id = 0; id < a.vocab_size(); ++id)
    if (a.is_id(id) != b.is_id(id) || (a.is_id(id) && a.bytes_of(id) != b.bytes_of(id))) return false;
  return true;
}

// Returns whether the carried files belong to the run's tokenizer; `folder` contains them.
bool carries_tokenizer_of_run(const fs::path& folder, const CarriedFiles& carried, const Tokenizer& run) {
  if (!carries_tokenizer(carried)) {
    const std::vector<int32_t> stops = carried_stop_ids(carried);
    return stops.empty() || std::find(stops.begin(), stops.end(), run.eot()) != stops.end();
  }
  try {
    return same_vocabulary(*load_tokenizer(folder.string()), run);
  } catch (const DataError& e) {
    log::warning("{}", e.what());
    return false;
  }
}

// Removes everything that belongs to the carried tokenizer from the folder and from `carried`.
void drop_tokenizer(const fs::path& folder, CarriedFiles& carried) {
  log::warning(
      "the data's tokenizer is not the one that came with the initial weights: its files and special ids are exported, "
      "and generation_config.json is written anew");
  OrderedJson config = carried_json(carried, kConfig);
  for (const char* key : kSpecialIds) config.erase(key);
  carried[kConfig] = config.dump();
  std::erase_if(carried, [&](const auto& f) {
    const bool gone = is_tokenizer_file(f.first) || f.first == kGeneration;
    if (gone) fs::remove(folder / f.first);
    return gone;
  });
}

// Starts from the special ids and the model's own config.json, which the spec's values override.
OrderedJson config_of(const RunSpec& spec, const CarriedFiles& carried, ElementType type) {
  // Written even when null, because transformers has defaults for absent keys (phi-3: pad_token_id 32000).
  OrderedJson config = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
  const OrderedJson original = carried_json(carried, kConfig),
                    origin = carried_json(carried, ForeignModel::kOriginName);
  config.update(original);
  for (const char* stale : {"rope_parameters", "transformers_version", "dtype", "_name_or_path"}) config.erase(stale);
  config.update(to_hf_config(spec.model));
  // The window given to `checkpoint import` is in fptrain's convention; other readers need the published one.
  if (origin.contains("sliding_window") && origin["sliding_window"] == spec.model.sliding_window)
    config["sliding_window"] = original.value("sliding_window", OrderedJson());
  config["torch_dtype"] = torch_name_of(type);
  return config;
}

void add_special_ids(const RunSpec& spec, const TrainState& state, const Tokenizer* tokenizer, OrderedJson& config) {
  if (tokenizer == nullptr) return;
  const FamilyTraits& traits = spec.model.traits();
  if (config["eos_token_id"].is_null()) {
    config["bos_token_id"] = tokenizer->bos().value_or(tokenizer->eot());
    config["eos_token_id"] = tokenizer->eot();
    if (traits.hf_pads_with_end) config["pad_token_id"] = tokenizer->eot();
  }
  if (traits.hf_lists_message_ends) add_message_ends(state, *tokenizer, kConfig, config);
}

void write_generation_config(const fs::path& folder, const TrainState& state, const CarriedFiles& carried,
                             const Tokenizer* tokenizer, const OrderedJson& config) {
  const bool there = carried.contains(kGeneration), chat = tokenizer != nullptr && !message_ends(state).empty();
  if (there && !chat) return;  // keep the carried file byte for byte
  OrderedJson generation = there ? carried_json(carried, kGeneration) : OrderedJson{{"_from_model_config", true}};
  for (const char* key : kSpecialIds)
    if (!generation.contains(key) && config.contains(key) && !config[key].is_null()) generation[key] = config[key];
  if (chat) {
    add_message_ends(state, *tokenizer, kGeneration, generation);
    generation.erase("_from_model_config");
  }
  write_file_atomically(folder / kGeneration, generation.dump(2) + "\n");
}

}  // namespace

OrderedJson carried_json(const CarriedFiles& carried, const std::string& name) {
  const auto it = carried.find(name);
  if (it == carried.end()) return OrderedJson::object();
  OrderedJson j = parse_ordered_json(it->second, name + ", which came with the model");
  if (!j.is_object()) throw DataError(fmt::format("{}, which came with the model, is not a JSON object", name));
  return j;
}

std::vector<int32_t> eos_ids(const OrderedJson& j, const std::string& file) {
  const OrderedJson eos = j.value("eos_token_id", OrderedJson());
  std::vector<int32_t> ids;
  if (eos.is_null()) return ids;
  for (const OrderedJson& id : eos.is_array() ? eos : OrderedJson::array({eos})) {
    // Numbers above int64 are unsigned in the parser and become negative here.
    const int64_t value = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (value < 0 || value > INT32_MAX)
      throw DataError(fmt::format("{}: eos_token_id: {}; legal: an id from 0 to {}, a list of them, null", file,
                                  eos.dump(-1, ' ', true).substr(0, 80), INT32_MAX));
    ids.push_back(static_cast<int32_t>(value));
  }
  return ids;
}

std::optional<ElementType> stored_type(const OrderedJson& origin, const std::string& param) {
  const auto refuse = [](const std::string& key, const OrderedJson& value, const char* legal) {
    throw DataError(fmt::format("{}, which came with the model: {} is {}; legal: {}", ForeignModel::kOriginName, key,
                                value.type_name(), legal));
  };
  const auto text = [&](const OrderedJson& j, const std::string& key) {
    const OrderedJson value = j.value(key, OrderedJson(""));
    if (!value.is_string()) refuse(key, value, "a string");
    return value.get<std::string>();
  };
  const OrderedJson exceptions = origin.value("exceptions", OrderedJson::object());
  if (!exceptions.is_object()) refuse("exceptions", exceptions, "an object");
  const std::string exception = text(exceptions, param);
  return element_type(exception.empty() ? text(origin, "dtype") : exception);
}

std::vector<int32_t> stop_ids_of(const TrainState& state) {
  std::vector<int32_t> ids = message_ends(state);
  append_new(ids, carried_stop_ids(state.carried));
  return ids;
}

bool write_companions(const fs::path& folder, const RunSpec& spec, const TrainState& state, ElementType type) {
  CarriedFiles carried = state.carried;
  for (const auto& [name, content] : carried)
    if (name != ForeignModel::kOriginName && name != kConfig) write_file_atomically(folder / name, content);
  std::unique_ptr<Tokenizer> tokenizer;
  if (!state.tokenizer_json.empty()) tokenizer = parse_tokenizer(state.tokenizer_json, "the run's tokenizer");
  if (tokenizer && !carries_tokenizer_of_run(folder, carried, *tokenizer)) drop_tokenizer(folder, carried);

  OrderedJson config = config_of(spec, carried, type);
  add_special_ids(spec, state, tokenizer.get(), config);
  write_file_atomically(folder / kConfig, config.dump(2) + "\n");
  write_generation_config(folder, state, carried, tokenizer.get(), config);
  if (carries_tokenizer(carried)) return true;
  if (!tokenizer) return false;
  const auto files = hf_tokenizer_files(*tokenizer);
  for (const auto& [name, content] : files)
    if (!carried.contains(name)) write_file_atomically(folder / name, content);
  return !files.empty();
}

}  // namespace fp
