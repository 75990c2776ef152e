// Declares every field of a cluster description.
#pragma once

#include "config/cluster/cluster.h"
#include "config/fields/field.h"

namespace fp {

void declare(Fields& f, ProductRates& s);
void declare(Fields& f, OpRates& s);
void declare(Fields& f, LinkRates& s);
void declare(Fields& f, NodeProfile& s);
void declare(Fields& f, ClusterSpec& s);

}  // namespace fp
