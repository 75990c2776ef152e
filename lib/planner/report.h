// What the planner has to say, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "planner/search.h"

namespace fp {

// "needs 61.2 GiB on rank 0, 80.0 GiB are there: it fits", memory by class.
std::string describe_memory(const RankMemory&, const ClusterSpec&);
// Seconds of a step by part, tokens/s, TFLOP/s, MFU.
std::string describe_time(const Estimate&, const ClusterSpec&);
// The plans that were not chosen and why, and what would change that.
std::string describe_search(const Search&);

// Messages of refusals: of a plan, with the nearest one that fits; of all plans.
std::string describe_nearest(const Plan&, const std::optional<Choice>& nearest);
std::string does_not_fit(const RankMemory&, const Plan&, const std::optional<Choice>& nearest);
std::string nothing_fits(const Search&, int ranks, const ClusterSpec&);

// The keys of `fptrain plan --json` (docs/planner.md); what is not known is null.
nlohmann::ordered_json plan_json(const Plan&);
nlohmann::ordered_json memory_json(const Prediction&);
nlohmann::ordered_json estimate_json(const Estimate&);
nlohmann::ordered_json alternatives_json(const Search&);

}  // namespace fp
