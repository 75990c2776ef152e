// Whether all ranks are about to do the same. Each was started with a command line of its own and reads run spec,
// program and data for itself: a mistake, or a network file system that still shows one node an old file, would let
// them train different models, and no communication would notice.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "config/run_spec.h"
#include "plan/mesh.h"
#include "train/run_data.h"

namespace fp {

// What must be the same on all ranks: keys with their values, in an order.
using Facts = std::vector<std::pair<std::string, std::string>>;

Facts facts_of(const RunSpec&);  // each of its keys
// What the ranks have opened, and where each of them would place the others.
Facts facts_of(const RunSpec&, const RunData&, const Mesh&);

// ConfigError on all ranks unless they have the same facts as rank 0: says the first keys that differ, their values and
// whose they are.
void require_same_facts(Group& world, const Facts& mine);
// First, that all have come to the same `outcome` (together.h) of reading what the facts are of, and that to no error:
// else that is thrown on all.
void require_same_start(Group& world, const std::string& outcome, const Facts& mine);

}  // namespace fp
