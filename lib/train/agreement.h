// Checks that all ranks are about to run the same training. Each rank is started with its own command line and reads
// presets, the program and the data itself: a mistake, or a network file system that still shows an old file on one
// node, would let them train different models, and no collective would notice. (The run spec's file is rank 0's.)
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "config/run_spec.h"
#include "sharding/mesh.h"
#include "train/rank_result.h"
#include "train/run_data.h"

namespace fp {

// An ordered list of keys and values that must be equal on all ranks.
using Facts = std::vector<std::pair<std::string, std::string>>;

// Returns every key of the run spec.
Facts facts_of(const RunSpec&);
// Returns the identity of the data that this rank has opened, and the mesh.
Facts facts_of(const RunSpec&, const RunData&, const Mesh&);

// Throws ConfigError on all ranks unless every rank has the same facts as rank 0. The message names the first keys that
// differ, their values and the ranks that have them.
void require_same_facts(Group& world, const Facts& mine);
// Like require_same_facts, but first compares the ranks' results of reading the run spec (`read`, train/rank_result.h).
// Throws on all ranks unless all could read it.
void require_same_start(Group& world, const RankResult& read, const Facts& mine);

}  // namespace fp
