// A rank's end of the lifeline: its thread, and the interface for the other threads of the process. Rank 0 has the hub,
// every other rank a spoke.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "launch/channel.h"
#include "launch/lifeline.h"
#include "launch/stack.h"

namespace fp {

class Member {
 public:
  Member(int rank, const CommRecord& record, LifelineOptions options);
  virtual ~Member() = default;  // abandon() or close() must have been called

  virtual std::string address() const { return {}; }
  virtual void join(const std::string& address) = 0;
  [[noreturn]] void fail(int code, const std::string& message, Blame);
  void report();
  void close();
  void watch(const CommRecord& record) { record_ = &record; }
  void abandon();  // stops the thread without notifying the other ranks

 protected:
  using Time = MonotonicClock::Time;

  virtual void run() = 0;  // body of the thread; returns after "leave" or when the run is over
  void start_thread();
  // The clock, in seconds, for the timeouts of other ranks, updated by update_clock(). Time during which this process
  // itself was stopped does not count.
  double awake_s() const { return awake_s_; }
  void update_clock();
  // Seconds that this process was stopped, if that ended within the last end.longest_s seconds; else 0.
  double paused_s() const { return clock_.seconds_since(last_pause_) < options_.end.longest_s ? paused_s_ : 0; }
  void print_stack() const;
  // As leave() and log_error() below, with the limits of the options.
  [[noreturn]] void leave_now(int code) const;
  void log_now(const std::string& text) const;
  // Logs a warning; after one that the log did not take in time, such as into a full pipe, none.
  void warn_now(const std::string& text);
  // Returns, once, a "fail" message for an error that communication met while no thread was waiting for it.
  std::optional<PeerMessage> failure_of_device();
  // Calls options_.suspect with the suspect node; does nothing if `node` is empty.
  void report_suspect(const std::string& node) const;

  const int rank_;
  std::atomic<const CommRecord*> record_;
  const LifelineOptions options_;
  MonotonicClock& clock_;
  Mailbox mailbox_;  // "fail" CODE BLAME TEXT, "report", "bye", "leave"; a signal to stop early wakes its reader too

 private:
  void stop(const char* verb);

  StackProbe stack_;  // of the thread that made this object: the main thread
  std::thread thread_;
  Time last_update_;
  double awake_s_ = 0;
  Time last_pause_{};
  double paused_s_ = 0;
  bool device_failed_ = false;
  bool log_hangs_ = false;
};

// Ends the process with `code` after flushing the log and the standard streams; at the latest after `flush_s` seconds.
[[noreturn]] void leave(int code, double flush_s = EndLimits{}.flush_s);
// Ends the process after `seconds` of real time, unconditionally.
void leave_after(double seconds, int code);
// Logs an error. If a thread that is stuck in a write holds the log for longer than `within_s`, the line is written to
// stderr only, or dropped if that would block.
void log_error(const std::string& text, double within_s = EndLimits{}.log_s);
// Runs `work` in a thread of its own and waits up to `seconds` of real time. Returns whether the work is done.
bool run_within(double seconds, std::function<void()> work);

}  // namespace fp
