// Measures how much of a step's communication is exposed (not hidden by computation): compares steps over slow links
// with steps of the same ranks over links that take no time.
#pragma once

#include <span>
#include <vector>

#include "comm/comm.h"
#include "config/run_spec.h"

namespace fp {

struct LinkSteps {
  double instant = 0, slow = 0;  // seconds of a step, medians
  double exposed = 0;            // median of the differences of steps that follow one another
};

// Trains each variant on random tokens over both worlds of the same ranks: `warmup` steps, then `steps` measured ones.
// Variants and worlds take turns, so that a machine that slows down affects all of them. The specs must be resolved and
// have model.vocab. Every rank calls it; the times are those of the first rank.
std::vector<LinkSteps> benchmark_links(std::span<const RunSpec> variants, World& instant, World& slow, Ops&, int warmup,
                                       int steps);

}  // namespace fp
