// A rank's end of the lifeline: its thread, and how others of the process speak to it. The hub is rank 0's, a spoke
// every other rank's.
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
  virtual ~Member() = default;  // after abandon() or close()

  virtual std::string address() const { return {}; }
  virtual void join(const std::string& address) = 0;
  [[noreturn]] void fail(int code, const std::string& message, Blame);
  void close();
  void watch(const CommRecord& record) { record_ = &record; }
  void abandon();  // stops the thread without a word to the others

 protected:
  using Time = MonotonicClock::Time;

  virtual void run() = 0;  // the thread; returns after "leave" or when the run is over
  void start_thread();
  // Time by which others are judged, moved on by look_at_clock(). What passes while this process itself is stopped does
  // not count.
  double awake_s() const { return awake_s_; }
  void look_at_clock();
  // How long this process was stopped, if that was a moment ago.
  double paused_s() const { return clock_.seconds_since(last_pause_) < options_.end.longest_s ? paused_s_ : 0; }
  void print_stack() const;
  // As the functions below, within the limits of the options.
  [[noreturn]] void leave_now(int code) const;
  void say_now(const std::string& text) const;
  // What communication has met while nobody waited for it, as a "fail"; once.
  std::optional<PeerMessage> failure_of_device();
  // Has the node noted that stood out, if there is one.
  void tell_suspect(const std::string& node) const;

  const int rank_;
  std::atomic<const CommRecord*> record_;
  const LifelineOptions options_;
  MonotonicClock& clock_;
  Mailbox mailbox_;  // "fail" CODE BLAME TEXT, "bye", "leave"; a signal to stop early wakes it too

 private:
  void stop(const char* verb);

  StackProbe stack_;  // of the main thread
  std::thread thread_;
  Time last_look_;
  double awake_s_ = 0;
  Time last_pause_{};
  double paused_s_ = 0;
  bool device_failed_ = false;
};

// Ends the process with `code` after what is in the standard streams is written; at the latest after `flush_s`.
[[noreturn]] void leave(int code, double flush_s = EndLimits{}.flush_s);
// Ends the process after so long in real time, whatever happens.
void leave_after(double seconds, int code);
// An error line in the log. When a thread that is stuck writing holds the log for longer, a line on the standard error
// alone, and none where that would block.
void say(const std::string& text, double within_s = EndLimits{}.say_s);
// Runs `work` in a thread of its own and waits so long for it, in real time; whether it is done.
bool run_within(double seconds, std::function<void()> work);

}  // namespace fp
