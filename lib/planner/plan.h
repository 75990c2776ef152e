// A plan: the keys of a run spec that change how a run is done, never what it computes.
#pragma once

#include <compare>
#include <string>

#include "config/run_spec.h"

namespace fp {

struct Plan {
  int64_t tensor = 1, sequence = 1, pipeline = 1, data = 1;
  std::string schedule = "1f1b";  // or that of a file
  int64_t chunks = 0;
  bool w_pass = false;
  bool megatron_sp = false;
  int64_t zero_stage = 0;
  int64_t micro_batch = 1;
  std::string recompute = "none";
  int64_t loss_chunk_tokens = 1024;

  auto operator<=>(const Plan&) const = default;
};

Plan plan_of(const RunSpec&);
// The spec with these keys, nothing left open.
RunSpec with_plan(RunSpec, const Plan&);

// "tensor 8 x data 2, ZeRO 1, micro-batch 4, recompute selective".
std::string describe(const Plan&);
// The keys in which `to` differs, as they are written after --set: "train.micro_batch=2 memory.recompute=full".
std::string changed_keys(const Plan& from, const Plan& to);
// The same over a spec that has none of these keys.
std::string written_keys(const Plan&);
int count_changed_keys(const Plan& from, const Plan& to);

}  // namespace fp
