// Faults on purpose, to see how a cluster, a batch script or a test takes them:
// FPTRAIN_FAULT="rank=3,step=5,phase=step,kind=kill" in the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fp {

struct Fault {
  enum class Kind { raise, sleep, kill, stop };  // an exception; sleeps for ever; SIGKILL; SIGSTOP
  int rank = 0;
  int64_t step = 0;
  std::string phase = "step";  // as CommRecord::enter_phase has it
  Kind kind = Kind::raise;     // written throw, sleep, kill, stop
  bool operator==(const Fault&) const = default;
};

// "key=value,..."; phase may be left out. ConfigError says what would be legal.
Fault parse_fault(std::string_view text);

// ConfigError when FPTRAIN_FAULT says nothing legal: before a run has begun.
void check_fault_request();

// Called where a rank enters a phase of a step; does what FPTRAIN_FAULT asks for, once. `throw`: DataError.
void maybe_fault(int rank, int64_t step, std::string_view phase);

}  // namespace fp
