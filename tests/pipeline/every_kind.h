// Test schedules: one of every kind, those with fused backward passes also with a W pass, and a wave of four chunks.
#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace fp::test {

inline std::vector<fp::Schedule> every_kind(int p, int m) {
  std::vector<fp::Schedule> all;
  for (const PipelineSchedule kind : fp::schedule_kinds()) {
    fp::ScheduleRequest request{.kind = kind, .ranks = p, .micro_batches = m};
    all.push_back(fp::generate(request));
    request.w_pass = true;
    if (!splits_weight_gradients(kind)) all.push_back(fp::generate(request));
  }
  all.push_back(fp::generate({.kind = PipelineSchedule::wave, .ranks = p, .micro_batches = m, .chunks = 4}));
  return all;
}

}  // namespace fp::test
