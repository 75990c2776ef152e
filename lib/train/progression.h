// The progress counters of training, which a checkpoint stores beside the parameters.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "exec/gradient_guard.h"

namespace fp {

struct Progression {
  int64_t step = 0;     // finished steps, skipped ones included
  int64_t updates = 0;  // applied updates: AdamW's bias correction counts these
  int64_t skipped_in_a_row = 0;
  uint64_t consumed = 0;  // samples
  int64_t tokens = 0;
  double elapsed_s = 0;
  std::optional<GradientGuardState> guard;  // if there is a limit of the error of quantized gradients
  double last_loss = std::numeric_limits<double>::quiet_NaN();

  // Throws DataError when the state lacks one of the values.
  static Progression from(const TrainState&);
  // Returns a state with these values and nothing else.
  TrainState state() const;
};

}  // namespace fp
