// Test schedules: one of every kind, those with fused backward passes also with a W pass, and a wave of four chunks.
#pragma once

#include <set>

#include "pipeline/schedule.h"

namespace fp::test {

inline std::vector<fp::Schedule> every_kind(int p, int m) {
  const std::set<std::string_view> fused{"gpipe", "1f1b", "interleaved", "bfs", "chimera", "bitpipe", "wave"};
  std::vector<fp::Schedule> all;
  for (const std::string_view name : fp::schedule_kinds()) {
    fp::ScheduleRequest request{.kind = std::string(name), .ranks = p, .micro_batches = m};
    all.push_back(fp::generate(request));
    request.w_pass = true;
    if (fused.contains(name)) all.push_back(fp::generate(request));
  }
  all.push_back(fp::generate({.kind = "wave", .ranks = p, .micro_batches = m, .chunks = 4}));
  return all;
}

}  // namespace fp::test
