// What two runs left, compared.
#pragma once

#include "ranks/job.h"

namespace fp::testing {

// Losses and, after so many steps, parameters of the run `name` are those of the run "one", to 1e-5
// (docs/architecture.md, section 4).
void check_like_one(const RanksWorkspace&, const std::string& name, int steps);

// The run `name`, done again, gives the same bits.
void check_repeats(const RanksWorkspace&, const std::filesystem::path& spec, const std::string& name, const Layout&,
                   const std::vector<std::string>& more);

}  // namespace fp::testing
