// Hugging Face config.json to a model section and back: gpt2, llama, phi3 (mini, medium) and phi3small.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/run_spec.h"

namespace fp {

// The model that a config.json describes, resolved. Reads the older form (rope_theta, rope_scaling) and the newer one
// (rope_parameters). DataError naming `where`, the key, its value and what is legal: for a missing or mistyped key, a
// model_type that is not one of ours, and every setting that would change the mathematics and is not supported.
// phi3's sliding_window W is read as W keys, the query's own included.
ModelSection model_from_hf_config(const std::string& text, const std::string& where);

// The config.json of a resolved section, in the older form, which all releases of transformers read. Token ids, dtype
// and transformers_version are the caller's business. DataError for a model that no Hugging Face class can express.
nlohmann::ordered_json hf_config_of(const ModelSection&);

}  // namespace fp
