// Estimates the time for one more step plus a save, so that a run can end before the time limit of its job.
#pragma once

#include <deque>

namespace fp {

class ShutdownTime {
 public:
  // Until the first save, the duration of one is estimated as `checkpoint_bytes` written by `ranks` ranks at kSaveRate
  // each, or by all together at `measured` bytes per second where that is known (not 0).
  ShutdownTime(double checkpoint_bytes, int ranks, double measured = 0);
  static constexpr double kSaveRate = 200e6;  // bytes per second: a plain disk, or a part of a busy file system

  // Record a duration. A step includes its evaluation, but no save.
  void step_took(double seconds);
  void save_took(double seconds);

  // Return the longest of the recent steps and saves, in seconds.
  double step_s() const;
  double save_s() const;
  // Returns whether the run must stop at the end of this step because `left` seconds may not be enough for another
  // step, a save that is due now and the final save. A save in progress is waited for in any case, and counted.
  bool must_stop(double left, bool save_under_way, bool save_due) const;

 private:
  double first_save_s_;
  std::deque<double> steps_, saves_;
};

}  // namespace fp
