#include "pipeline/closed_forms.h"

#include <algorithm>

namespace fp {
namespace {

struct Sizes {
  double p, m, v, rounds;  // ranks, micro-batches, chunks, m / p
};

Sizes sizes_of(const ScheduleRequest& q) {
  const double p = q.ranks, m = q.micro_batches;
  return {p, m, static_cast<double>(placement_of(q).chunks), m / p};
}

double idle_split(const ScheduleRequest& q, const Sizes& s) {
  using enum PipelineSchedule;
  if (q.kind == zb_v) return (s.p - 1) / 2 * (1 + std::max(0.0, 3 - 2 * s.rounds));
  if (q.kind == interleaved_zb) return (s.p - 1) / s.v;
  if (q.kind == dualpipe) return s.p / 2 - 1;
  if (q.kind == dualpipev) return (s.p - 1) / 2;
  return std::max(s.p - 1, 2 * s.p - 1 - s.m);  // zb-h1, zb-h2
}

}  // namespace

double idle_passes(const ScheduleRequest& request) {
  using enum PipelineSchedule;
  const ScheduleRequest q = complete(request);
  const Sizes s = sizes_of(q);
  if (s.p == 1) return 0;
  if (q.kind == chimera || q.kind == bitpipe) return (q.w_pass ? s.p / 2 - 1 : (s.p - 2) * (s.rounds + 1)) / s.v;
  if (q.kind == zeropp) return (q.warmup == 1 ? s.m / q.unit_size : 1) * (s.p - 1) / s.v;
  if (q.kind == wave) return 2.5 * (s.p - 1);
  if (q.kind == gpipe || q.kind == one_f_one_b || q.kind == interleaved || q.kind == bfs)
    return (q.w_pass ? 1 : 3) * (s.p - 1) / s.v;
  return idle_split(q, s);
}

double held_micro_batches(const ScheduleRequest& request) {
  using enum PipelineSchedule;
  const ScheduleRequest q = complete(request);
  const Sizes s = sizes_of(q);
  double held = s.p;
  if (q.kind == gpipe || q.kind == bfs) held = s.m;
  if (q.kind == interleaved) held = s.p + (s.p - 1) / s.v + (q.group > s.p ? q.group - s.p : 0);
  if (q.kind == interleaved_zb) held = ((s.v - 1) * q.group + s.p) / s.v;
  if (q.kind == zb_h2) held = 2 * s.p - 1;
  if (q.kind == dualpipe) held = s.p + 1;
  if (q.kind == dualpipev) held = s.p + 0.5;
  if (q.kind == zeropp) held = ((s.v - 1) * q.unit_size + (q.warmup == 1 ? s.p : 2 * s.p - 1)) / s.v;
  if (q.kind == wave) held = q.window;
  return std::min(held, s.m);
}

}  // namespace fp
