// Reads and writes the files beside the weights in a Hugging Face folder: config.json, generation_config.json and the
// tokenizer's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/run_spec.h"
#include "data/tokenizer/tokenizer.h"
#include "interop/element.h"

namespace fp {

using CarriedFiles = std::map<std::string, std::string>;  // file name -> content (TrainState::carried)

// Parses a carried file; returns an empty object where it is not carried. Throws DataError when it is not a JSON
// object.
nlohmann::ordered_json carried_json(const CarriedFiles&, const std::string& name);

// Returns eos_token_id of a config.json or generation_config.json, which is one id or a list; empty where it is absent
// or null. Throws DataError naming `file`, the key and its value for anything else.
std::vector<int32_t> eos_ids(const nlohmann::ordered_json&, const std::string& file);

// Returns the element type of a parameter in the files that a model was imported from, as its origin.json records;
// nothing where it is not recorded. Throws DataError for an origin.json that no import wrote.
std::optional<ElementType> stored_type(const nlohmann::ordered_json& origin, const std::string& param);

// Returns the ids that end a model's text: the token that ends a message of the conversations that the model was
// trained on, and the ids of its generation_config.json, else of its config.json.
std::vector<int32_t> stop_ids_of(const TrainState&);

// Writes these files for an export and returns whether they include a tokenizer. Files that came with an imported model
// are written unchanged, unless they belong to another tokenizer than that of the run's data: then the run's tokenizer
// is written instead, with a warning.
bool write_companions(const std::filesystem::path& folder, const RunSpec&, const TrainState&, ElementType);

// Returns the files from which transformers reads a tokenizer, as name -> content: empty for "bytes", which only
// fptrain has. For tiktoken ranks transformers needs the model's own code.
std::map<std::string, std::string> hf_tokenizer_files(const Tokenizer&);

}  // namespace fp
