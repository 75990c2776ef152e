// Which checkpoint a run goes on from, and whether it may.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "checkpoint/checkpoint.h"
#include "config/run_spec.h"
#include "data/sampler.h"

namespace fp {

// "auto": the newest good checkpoint of this model, damaged and foreign ones named and passed over; nothing in a fresh
// folder; DataError when there are checkpoints but none can be used, so that no run starts over unasked; ConfigError
// when the newest one is of a later version of the format; InfrastructureError when it cannot be read.
// "none": nothing; ConfigError when the run already has checkpoints, which a fresh run would overwrite.
// A path: that checkpoint; DataError when it is not a good one.
// Their tensors are not read: what turns out to be damaged in a load is to be `passed` over in the next choice.
std::optional<Checkpoint> checkpoint_to_resume(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                               const ParamTable&, const std::set<std::filesystem::path>& passed = {});

// What determines which sample comes when: contents of the data, weights, seed, sequence length, masking, tokenizer.
nlohmann::json data_identity(const RunSpec&, const Sampler&);

// How the data of a run differs from that of the checkpoint it would resume, one line a key; empty: not at all.
std::string data_differences(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace fp
