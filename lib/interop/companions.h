// The files of a Hugging Face folder beside its weights: config.json, generation_config.json, the tokenizer's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/run_spec.h"
#include "data/tokenizer.h"
#include "interop/element.h"

namespace fp {

using CarriedFiles = std::map<std::string, std::string>;  // content by name (TrainState::carried)

// A carried file; an object without keys where it is not carried. DataError when it is no JSON object.
nlohmann::ordered_json carried_json(const CarriedFiles&, const std::string& name);

// eos_token_id of a config.json or generation_config.json, one id or a list: empty where there is none. DataError
// naming `file`, the key and its value for anything else.
std::vector<int32_t> eos_ids(const nlohmann::ordered_json&, const std::string& file);

// The ids that end a model's text: those of its generation_config.json, else of its config.json, and what ends a
// message of the conversations that it was trained on.
std::vector<int32_t> stop_ids_of(const TrainState&);

// Writes them; true when there is a tokenizer among them. What came with an imported model leaves with it, except where
// it speaks of another tokenizer than the one of the run's data: then the run's takes its place, with a warning.
bool write_companions(const std::filesystem::path& folder, const RunSpec&, const TrainState&, ElementType);

// The files by which transformers reads a tokenizer, by name: empty for "bytes", which only fptrain has. For tiktoken
// ranks transformers needs the model's own code.
std::map<std::string, std::string> hf_tokenizer_files(const Tokenizer&);

}  // namespace fp
