// Plan: the keys of a run spec that change how a run executes, and not what it computes; but for gradient_bits, which
// the planner chooses only within a limit of the error that the spec sets.
#pragma once

#include <compare>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_spec.h"

namespace fp {

struct Plan {
  int64_t tensor = 1, sequence = 1, pipeline = 1, data = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  // not used with a schedule file
  int64_t chunks = 0;
  bool w_pass = false;
  bool megatron_sp = false;
  int64_t zero_stage = 0;
  int64_t micro_batch = 1;
  Recompute recompute = Recompute::none;
  Offload activations = Offload::none;
  int64_t sequence_chunk_tokens = 0, mlp_tile_tokens = 0, loss_chunk_tokens = 1024;
  Offload optimizer = Offload::none, weights = Offload::none;
  double device_share = 1;                       // of offloaded state
  int64_t subgroup = OffloadSection().subgroup;  // of offloaded state
  bool node_weights = false;
  int64_t gradient_bits = 0;

  bool operator==(const Plan&) const = default;
  // Orders schedules by their names.
  std::strong_ordering operator<=>(const Plan&) const;
};

Plan plan_of(const RunSpec&);
// Returns the spec with the keys of the plan, and no keys left open.
RunSpec with_plan(RunSpec, const Plan&);

// Converts a plan to an object with a member for each of its fields, and back.
nlohmann::json to_json(const Plan&);
Plan plan_from_json(const nlohmann::json&);

// Returns a description such as "tensor 8 x data 2, ZeRO 1, micro-batch 4, recompute selective".
std::string describe(const Plan&);
// A key in which two plans differ, and its new value as text.
struct ChangedKey {
  std::string_view path;  // dotted path in the spec: "train.micro_batch"
  std::string value;
};

// Returns the keys in which `to` differs.
std::vector<ChangedKey> list_changed_keys(const Plan& from, const Plan& to);
// The same as text, in the form of --set: "train.micro_batch=2 memory.recompute=full".
std::string changed_keys(const Plan& from, const Plan& to);
// The same relative to the defaults.
std::string written_keys(const Plan&);

}  // namespace fp
