// The lifeline of a run: when one rank fails or hangs, all ranks end. A thread of each rank keeps a TCP connection to
// rank 0 and reports with every heartbeat what the rank is doing; rank 0's thread, the hub, ends all ranks when one
// fails. It depends on neither MPI nor the launcher, which may themselves hang. Both ends of a connection prove that
// they know the job's token, and each message carries a proof of its origin (launch/proof.h). Rank 0 listens only while
// a rank is missing.
//
//  - A rank is gone (killed, crashed, its host unreachable): the hub logs the rank and its last activity. Exit code 76.
//    If it is rank 0, one other rank logs it, on another host if there is one.
//  - A connection breaks although neither process has ended: the rank reconnects within kComeBackBeats heartbeats.
//    After that it counts as gone, unless steps continue meanwhile, in which it takes part: then only the rule for
//    stalls applies.
//  - A rank fails: its message is printed once, even if several ranks have the same one, and all ranks end with its
//    code.
//  - A rank is told to stop early (launch/early_stop.h): all ranks end with 75.
//  - The run stalls (the rule is in launch/stall.h): the hub logs the activity of every rank and the ranks that stand
//    out, every rank prints the stack of its main thread, and the hub repeats below the stacks which ranks are suspect.
//    Exit code 76. A rank of which three heartbeats are missing is called silent. When rank 0 is silent for the timeout
//    of their phase, the other ranks end, first the one that logs it.
//
// A process ends by flushing its output and calling _exit within seconds, whatever its main thread is doing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "comm/record.h"
#include "launch/clock.h"
#include "launch/stall.h"

namespace fp {

// Time limits for the steps of ending a process, in real seconds whatever the clock, as this process itself may be
// stuck.
struct EndLimits {
  double log_s = 2;       // to log an error
  double flush_s = 2;     // to flush the standard streams
  double stack_s = 1;     // to read the main thread's stack
  double longest_s = 10;  // for everything
};

struct LifelineOptions {
  double heartbeat_s = 1;
  PhaseTimeouts timeouts_s{};
  double connect_s = 60;  // limit for all ranks to join
  bool one_host = false;  // all ranks are on this host: rank 0 listens on loopback only
  // Called with the suspect node before the run ends for a reason for which one of several nodes is suspect. Runs in a
  // separate thread, which is waited for up to end.log_s seconds.
  std::function<void(const std::string& node)> suspect = {};
  EndLimits end{};
  MonotonicClock* clock = &real_clock();
};

// The origin of a failure: this rank itself, or another rank, seen as a communication that broke. The latter is only
// printed when no rank reports a failure of its own.
enum class Blame { self, peer };

class Member;

// Exit code of a process that ends because of another rank, a host or a network.
constexpr int kInfrastructure = static_cast<int>(ExitCode::infrastructure);
constexpr int kComeBackBeats = 10;

class Lifeline {
 public:
  // To be created on the main thread of each rank; `record` must live until close().
  Lifeline(int rank, int size, const CommRecord& record, LifelineOptions);
  // If close() was not called, the other ranks treat this one as gone.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  // The address of rank 0, for join() on all ranks; empty on the others. It contains the job's token, so whoever knows
  // it is accepted as a rank: MPI distributes it to the ranks, and it is never written anywhere.
  std::string address() const;
  void join(const std::string& address);

  // Replaces the record from which the rank's activity is read, by that of the world on its device.
  void watch(const CommRecord&);
  // Reports this rank's activity to rank 0 at once instead of with the next heartbeat.
  void report();
  // Ends all ranks with `code`. May be called from any thread; does not return.
  [[noreturn]] void fail(int code, const std::string& message, Blame = Blame::self);
  // Reports that this rank is done, and returns when all ranks are. The ranks that are not are watched until then.
  void close();

 private:
  std::unique_ptr<Member> member_;
};

}  // namespace fp
