// Formats the planner's results, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "planner/dial.h"
#include "planner/search.h"

namespace fp {

// Returns a table of the memory of the rank that needs most, by class, and whether it fits. The lines add up.
std::string describe_memory(const RankMemory&, const ClusterSpec&);
// Returns a table of the seconds of a step by part, tokens/s, TFLOP/s and MFU, the time of the whole run, and the
// source of the rates.
std::string describe_time(const Estimate&, const ClusterSpec&);
// Returns the chosen plan, the runners-up and why they lost, and what would change that; empty if nothing fits.
std::string describe_search(const Search&);
// Returns a table of the plans along the dial, in which `chosen` is marked.
std::string describe_dial(const std::vector<DialRow>&, const Plan& chosen);

// Error messages: for a plan that does not fit, with the nearest one that does; and if no plan fits.
std::string describe_nearest(const Plan&, const std::optional<Choice>& nearest);
std::string does_not_fit(const RankMemory&, const Plan&, const std::optional<Choice>& nearest);
std::string nothing_fits(const Search&, int ranks, const ClusterSpec&);

// The parts of the output of `fptrain plan --json` (docs/planner.md); unknown values are null.
nlohmann::ordered_json plan_json(const Plan&);
nlohmann::ordered_json memory_json(const Prediction&);
nlohmann::ordered_json estimate_json(const Estimate&);
nlohmann::ordered_json alternatives_json(const Search&);
nlohmann::ordered_json dial_json(const std::vector<DialRow>&, const Plan& chosen);

}  // namespace fp
