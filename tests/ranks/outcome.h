// Compares the results of two runs.
#pragma once

#include "ranks/job.h"

namespace fp::test {

// Checks that the losses and, after `steps` steps, the parameters of the run `name` equal those of the run "one" within
// 1e-5 (docs/architecture.md, section 4).
void check_like_one(const RanksWorkspace&, const std::string& name, int steps);

// Repeats the run `name` and checks that it gives the same bits.
void check_repeats(const RanksWorkspace&, const std::filesystem::path& spec, const std::string& name, const Layout&,
                   const std::vector<std::string>& more);

// Trains a model of the family with the arguments `more` on one rank and on every `stride`-th layout, from `first` on.
// Checks each with check_like_one(), and every third with check_repeats().
void check_layouts(const std::string& family, const std::vector<Layout>&, size_t first, size_t stride,
                   const std::vector<std::string>& more, int steps);

}  // namespace fp::test
