// Subgroups: the parts of the parameters whose state is updated at a time.
#pragma once

#include <vector>

#include "model/env.h"
#include "optim/update_schedule.h"

namespace fp {

// A part of a unit's kept state that is updated at a time, and which of its slots are.
struct Subgroup {
  enum class Slots : uint8_t { all, states, param };

  int unit = 0;
  IndexRange range;              // of the table's flat buffers
  std::vector<ParamPart> parts;  // those that ParamStore::kept() returns, or parts of them
  Slots slots = Slots::all;
};

// Cuts the state that this rank keeps into subgroups: units or, if some of it is in host memory, parts of units of at
// most StoreOptions::subgroup_elements elements. Parts of a parameter begin at multiples of 8 of its elements. Where
// matrices have other slots than the rest, they form separate subgroups that exclude the parameter itself, since
// MatrixUpdate updates it.
std::vector<Subgroup> subgroups_of(const ParamStore&);
// Returns the place, device or host, where each subgroup is updated. `device_share`: fraction of the elements on the
// device, from 0 to 1.
std::vector<UpdatePlace> places_of(const std::vector<Subgroup>&, double device_share);
// Return numbers of parts and of elements that the subgroups of no rank of the data group exceed, so that all need
// equal memory.
int64_t most_parts(const ParamStore&);
int64_t most_elements(const ParamStore&);
// Appends subgroups of one part each that make up this part of a parameter, with its master weights alone.
void append_master_subgroups(const ParamStore&, const ParamPart&, std::vector<Subgroup>&);

}  // namespace fp
