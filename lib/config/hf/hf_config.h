// Converts Hugging Face config.json files to model sections and back: the classes of all model families.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/run_spec.h"

namespace fp {

// Returns the resolved model section that a config.json (`text`) describes. Reads the older form (rope_theta,
// rope_scaling) and the newer one (rope_parameters). Throws DataError with `where`, the key, its value and the legal
// values: for a missing or mistyped key, an unsupported model_type, and every unsupported setting that would change
// what the model computes. A sliding_window of W means W keys, the query's own included.
ModelSection model_from_hf_config(const std::string& text, const std::string& where);

// Returns the config.json of a resolved section, in the older form, which all releases of transformers read. The caller
// adds token ids, dtype and transformers_version. Throws DataError for a model that no Hugging Face class can express.
nlohmann::ordered_json to_hf_config(const ModelSection&);

}  // namespace fp
