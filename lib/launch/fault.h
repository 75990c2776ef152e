// Injected faults, to test how a cluster, a batch script or fptrain handles them:
// FPTRAIN_FAULT="rank=3,step=5,phase=step,kind=kill", "kind=slow,ms=20",
// "rank=3,step=5,kind=flip,what=weights,element=1000,bit=30" or
// "kind=outlier,what=h.2.attn.c_attn.weight,element=7,factor=1e4" in the environment. As a variable may be inherited
// unnoticed from a script or a job, it has no effect and is refused unless the command line contains --allow-faults.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fp {

struct Fault {
  // raise: throws an exception; sleep: sleeps forever; kill: SIGKILL; stop: SIGSTOP; flip: a bit of the state flips;
  // slow: a slow disk; outlier: gradients of a channel are larger; both on all ranks and for the whole run.
  enum class Kind { raise, sleep, kill, stop, flip, slow, outlier };
  int rank = 0;
  int64_t step = 0;  // 0: during set-up
  // As passed to CommRecord::enter_phase; planning: the search of rank 0 under parallel: auto.
  std::string phase = "step";
  Kind kind = Kind::raise;  // in text: throw, sleep, kill, stop, flip, slow, outlier
  int64_t ms = 0;           // slow: delay before each change that a save makes to the disk
  // flip: the target is the rank's fp32 master weights or first moments before the step, the gradients that it
  // contributes to a sum over data-parallel ranks, or such a sum as it receives it.
  std::string what = {};  // weights, moments, gradients or sums; outlier: a parameter
  int64_t element = 0;    // index into those, modulo their number; outlier: the channel, along the second dimension
  int bit = 30;           // 0, the lowest of the mantissa, to 31, the sign
  double factor = 1;      // outlier: by which its gradients are multiplied
  bool operator==(const Fault&) const = default;
};

// Parses "key=value,..."; phase may be omitted. Throws ConfigError, which says what would be legal.
Fault parse_fault(std::string_view text);

// Enables FPTRAIN_FAULT in this process (--allow-faults). To be called before all functions below.
void allow_faults();

// Throws ConfigError when FPTRAIN_FAULT is set but not allowed, or is not legal. To be called before a run begins.
void check_fault_request();

// Returns the delay before each change to the disk that FPTRAIN_FAULT requests; 0: none.
std::chrono::milliseconds slow_disk();

// Returns the outlier that FPTRAIN_FAULT requests.
std::optional<Fault> gradient_outlier();

// Returns the flip that FPTRAIN_FAULT requests before this step of this rank, once.
std::optional<Fault> flip_due(int rank, int64_t step);

// To be called when a rank enters a phase of a step; performs the fault that FPTRAIN_FAULT requests, once. `throw`
// throws DataError.
void maybe_fault(int rank, int64_t step, std::string_view phase);

}  // namespace fp
