// Faults on purpose, to see how a cluster, a batch script or a test takes them:
// FPTRAIN_FAULT="rank=3,step=5,phase=step,kind=kill" or "kind=slow,ms=20" in the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace fp {

struct Fault {
  // An exception; sleeps for ever; SIGKILL; SIGSTOP; and, on all ranks and for the whole run, a slow disk.
  enum class Kind { raise, sleep, kill, stop, slow };
  int rank = 0;
  int64_t step = 0;            // 0 in set-up
  std::string phase = "step";  // as CommRecord::enter_phase has it
  Kind kind = Kind::raise;     // written throw, sleep, kill, stop, slow
  int64_t ms = 0;              // slow: before each change that a save makes to the disk
  bool operator==(const Fault&) const = default;
};

// "key=value,..."; phase may be left out. ConfigError says what would be legal.
Fault parse_fault(std::string_view text);

// ConfigError when FPTRAIN_FAULT says nothing legal: before a run has begun.
void check_fault_request();

// How long FPTRAIN_FAULT wants each change to the disk to take; 0: no longer than it does.
std::chrono::milliseconds slow_disk();

// Called where a rank enters a phase of a step; does what FPTRAIN_FAULT asks for, once. `throw`: DataError.
void maybe_fault(int rank, int64_t step, std::string_view phase);

}  // namespace fp
