// Measures the rates of a cluster description. Every rank of the world makes the same calls, and all measure at the
// same time, so the rates are those of ranks that share their nodes with the others.
#pragma once

#include <string>
#include <vector>

#include "comm/comm.h"
#include "planner/fit.h"

namespace fp {

// After this time, quick measurements leave out repetitions and models beyond the first. It applies to the device and
// to the links separately. On an idle machine all is done in a few seconds.
constexpr double kQuickSeconds = 10;

// A training step of a small model: its measured time, and that predicted with the fitted rates.
struct CheckedStep {
  std::string model;
  double seconds = 0, predicted = 0;
  bool fitted = true;  // whether the rates were also fitted to its ops
};

struct DeviceRates {
  NodeProfile profile;  // without its links
  std::vector<FitError> errors;
  std::vector<CheckedStep> steps;
  double copy_gb_per_s = 0, host_gb_per_s = 0, host_update_gb_per_s = 0;  // per rank
};

// Trains small models on the device and times every op within a step; then wide products (on CPUs), attention over many
// tokens and quantization. Takes one to three minutes. `quick`: takes some seconds, with smaller sizes, and starts no
// model after `limit_s`, except the first, in each compute type; the limit does not apply to the rest. `together`: the
// group of all ranks, over which measurements are averaged. `ranks`: ranks per node.
DeviceRates measure_device(Ops&, Group& together, int ranks, bool quick, double limit_s = kQuickSeconds);

// Times every collective among the ranks of each node and, with several nodes, among the ranks with the same position
// on each node; and messages between neighbours, both ways at once. `hosts`: of all ranks, in rank order. `quick`: in
// three batches, and in one after `limit_s`. Throws ConfigError if hosts have different numbers of ranks.
std::vector<LinkSample> measure_links(World&, Ops&, const std::vector<std::string>& hosts, bool quick,
                                      double limit_s = kQuickSeconds);

}  // namespace fp
