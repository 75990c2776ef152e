// Measures what a cluster description says. Every rank of the world makes the same calls, and all measure at the same
// time: the rates are those of so many ranks that share their nodes.
#pragma once

#include <string>
#include <vector>

#include "comm/comm.h"
#include "planner/fit.h"

namespace fp {

// Quick measurements leave out repetitions, and models beyond the first, once they have taken so long: twice, for the
// device and for the links. On a machine that does nothing else all is done in a few seconds.
constexpr double kQuickSeconds = 10;

// A training step of a small model, as its ops were measured and as the rates that came out of them say.
struct CheckedStep {
  std::string model;
  double seconds = 0, predicted = 0;
  bool fitted = true;  // its ops are among those that the rates were fitted to
};

struct DeviceRates {
  NodeProfile profile;  // all but its links
  std::vector<FitError> errors;
  std::vector<CheckedStep> steps;
  double copy_gb_per_s = 0, host_gb_per_s = 0;  // of a rank
};

// Trains small models on the device and times every op in its place. Takes about a minute, `quick` some seconds
// and no model begun after `limit_s`, but the smallest in each compute type.
// `together`: all ranks; it averages what they measured. ranks: of a node.
DeviceRates measure_device(Ops&, Group& together, int ranks, bool quick, double limit_s = kQuickSeconds);

// Every collective among the ranks of each node and, where there are several nodes, among those ranks of all nodes that
// have the same place on theirs; messages between neighbours, both ways at once. `quick`: in three batches, in one from
// `limit_s` on. The hosts of all ranks in rank order:
// ConfigError when some have more ranks than others.
std::vector<LinkSample> measure_links(World&, Ops&, const std::vector<std::string>& hosts, bool quick,
                                      double limit_s = kQuickSeconds);

}  // namespace fp
