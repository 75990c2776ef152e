// Whether a resumed run goes on where it stopped, by the loss of its first step: of all mistakes that a right
// fingerprint does not rule out (other data, another model code, a wrong scale), most show there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fp {

struct FirstLoss {
  std::string text;  // for the run's events
  bool suspicious = false;
};

// Of step `step`, the first after a resume: its loss, what it was when the step was taken before (nothing: it never
// was), and the loss of the step before it, as the checkpoint has it (NaN: none). Suspicious is a step that is taken
// again and comes out more than 2 % elsewhere, or a new one that lies more than half a nat and 20 % above the last.
// Empty: nothing to compare with.
std::optional<FirstLoss> compare_first_loss(int64_t step, double loss, std::optional<double> before, double last);

}  // namespace fp
