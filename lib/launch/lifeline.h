// The lifeline of a run: no rank dies or hangs alone. A thread of each rank keeps a TCP connection to rank 0 and says
// every heartbeat what the rank is doing; rank 0's thread, the hub, ends all ranks when one fails. It needs neither MPI
// nor the launcher, which may be what hangs.
//
//  - A rank is gone (killed, crashed, its host unreachable): the hub names it and what it last did. Code 76. Is it rank
//    0, one other rank says so, on another host if there is one.
//  - A connection breaks although neither process has ended: the rank makes it again within kComeBackBeats heartbeats.
//    Later it counts as gone, unless steps go on meanwhile, which it takes part in: then the rule of standstills
//    judges.
//  - A rank fails: its message is printed once, even if several ranks have the same, and all end with its code.
//  - A rank is told to stop early (launch/early_stop.h): all end with 75.
//  - The run stands still (the rule: launch/stall.h): the hub says what every rank does and who stands out, every rank
//    prints the stack of its main thread, and the hub says below them who stands out. Code 76. A rank whose heartbeats
//    stay away for three of them is called silent. When rank 0 is silent for as long as the timeout of their phase, the
//    others end, the one that says so first.
//
// To end is to flush and _exit within seconds, whatever the main thread is doing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "comm/record.h"
#include "launch/clock.h"
#include "launch/stall.h"

namespace fp {

// How long the steps of an end may take, in real seconds whatever the clock: it is this process that may be stuck then.
struct EndLimits {
  double say_s = 2;       // for the log to take an error
  double flush_s = 2;     // for the standard streams
  double stack_s = 1;     // for the main thread to show its stack
  double longest_s = 10;  // for everything
};

struct LifelineOptions {
  double heartbeat_s = 1;
  PhaseTimeouts timeouts_s{};
  double connect_s = 60;  // all ranks have joined by then
  // Called before the run ends for a reason of which one node of several stood out, in a thread that is not waited for
  // longer than an error line.
  std::function<void(const std::string& node)> suspect = {};
  EndLimits end{};
  MonotonicClock* clock = &real_clock();
};

// Whose fault a failure is: this rank's own, or another rank's, seen as a communication that broke. The latter is only
// printed when no rank comes up with the former.
enum class Blame { self, peer };

class Member;

// The process ends for what another rank, a host or a network did.
constexpr int kInfrastructure = static_cast<int>(ExitCode::infrastructure);
constexpr int kComeBackBeats = 10;

class Lifeline {
 public:
  // On the main thread of each rank; `record` lives until close().
  Lifeline(int rank, int size, const CommRecord& record, LifelineOptions);
  // Without close() the other ranks take this one for gone.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  // Rank 0's, for join() on all ranks; empty on the others.
  std::string address() const;
  void join(const std::string& address);

  // From now on it is this record that says what the rank does: that of the world on its device.
  void watch(const CommRecord&);
  // All ranks end with `code`. Any thread may call it; it does not return.
  [[noreturn]] void fail(int code, const std::string& message, Blame = Blame::self);
  // This rank is done. Rank 0 waits for all others to say so, and watches them until then.
  void close();

 private:
  std::unique_ptr<Member> member_;
};

}  // namespace fp
