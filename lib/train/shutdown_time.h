// Estimates the time for one more step plus a save, so that a run can end before the time limit of its job.
#pragma once

#include <deque>
#include <optional>

namespace fp {

class ShutdownTime {
 public:
  // Until the first save, the duration of one is estimated as `checkpoint_bytes` written by `ranks` ranks at kSaveRate
  // each, or by all together at `measured` bytes per second where that is known (not 0).
  ShutdownTime(double checkpoint_bytes, int ranks, double measured = 0);
  static constexpr double kSaveRate = 200e6;  // bytes per second: a plain disk, or a part of a busy file system

  // Record a duration.
  void step_took(double seconds);
  void evaluation_took(double seconds);
  void save_took(double seconds);
  // Records the last save of an earlier start. On fewer ranks than that start had (nullopt: not known), a save is
  // expected to take longer.
  void earlier_save_took(double seconds, std::optional<int> ranks);

  // Return the longest of the recent steps, evaluations and saves, in seconds; 0 before the first step or evaluation.
  double step_s() const;
  double evaluation_s() const;
  double save_s() const;
  // Work that follows a step, beside the final save.
  struct Due {
    bool evaluation = false, save = false, step = true;
  };
  // Returns whether the run must stop at the end of this step because `left` seconds may not be enough for what is due
  // and the final save. A save in progress is waited for in any case, and counted.
  bool must_stop(double left, bool save_under_way, const Due&) const;

 private:
  int ranks_;
  double first_save_s_;
  std::deque<double> steps_, evaluations_, saves_;
};

}  // namespace fp
