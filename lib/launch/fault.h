// Faults on purpose, to see how a cluster, a batch script or a test takes them:
// FPTRAIN_FAULT="rank=3,step=5,phase=step,kind=kill", "kind=slow,ms=20" or
// "rank=3,step=5,kind=flip,what=weights,element=1000,bit=30" in the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fp {

struct Fault {
  // An exception; sleeps for ever; SIGKILL; SIGSTOP; a bit of the state that changes; and, on all ranks and for the
  // whole run, a slow disk.
  enum class Kind { raise, sleep, kill, stop, flip, slow };
  int rank = 0;
  int64_t step = 0;            // 0 in set-up
  std::string phase = "step";  // as CommRecord::enter_phase has it; planning: what rank 0 does under parallel: auto
  Kind kind = Kind::raise;     // written throw, sleep, kill, stop, flip, slow
  int64_t ms = 0;              // slow: before each change that a save makes to the disk
  // flip: of the rank's fp32 master weights or first moments before the step, of the gradients that it gives to a sum
  // over data ranks, or of such a sum as it receives it.
  std::string what = {};  // weights, moments, gradients or sums
  int64_t element = 0;    // of those, modulo their number
  int bit = 30;           // 0, the lowest of the mantissa, to 31, the sign
  bool operator==(const Fault&) const = default;
};

// "key=value,..."; phase may be left out. ConfigError says what would be legal.
Fault parse_fault(std::string_view text);

// ConfigError when FPTRAIN_FAULT says nothing legal: before a run has begun.
void check_fault_request();

// How long FPTRAIN_FAULT wants each change to the disk to take; 0: no longer than it does.
std::chrono::milliseconds slow_disk();

// The flip that FPTRAIN_FAULT asks for before this step of this rank, once.
std::optional<Fault> flip_due(int rank, int64_t step);

// Called where a rank enters a phase of a step; does what FPTRAIN_FAULT asks for, once. `throw`: DataError.
void maybe_fault(int rank, int64_t step, std::string_view phase);

}  // namespace fp
