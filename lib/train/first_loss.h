// Checks by the loss of the first step whether a resumed run really continues where it stopped. Most mistakes that
// correct fingerprints do not rule out (other data, other model code, a wrong scale) show there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fp {

struct FirstLoss {
  std::string text;  // for the run's event log
  bool suspicious = false;
};

// Compares the loss of step `step`, the first after a resume, with `before`, its loss when the same step was run
// earlier (nullopt: it was not), or else with `last`, the loss of the step before it as the checkpoint has it (NaN:
// none). A repeated step is suspicious when its loss differs by more than 2 %; a new one when its loss is both more
// than half a nat and more than 20 % above the last. Returns nullopt when there is nothing to compare with.
std::optional<FirstLoss> compare_first_loss(int64_t step, double loss, std::optional<double> before, double last);

}  // namespace fp
