// How long a run needs to end well: one more step, and a save.
#pragma once

#include <deque>

namespace fp {

class TimeNeeded {
 public:
  // Before anything was saved, a save is taken to be so many bytes, written by so many ranks at kSaveRate each, or by
  // all together at `measured` bytes a second where that is known (not 0).
  TimeNeeded(double checkpoint_bytes, int ranks, double measured = 0);
  static constexpr double kSaveRate = 200e6;  // bytes a second: a plain disk, or a share of a busy file system

  void step_took(double seconds);  // with its evaluation, without a save
  void save_took(double seconds);

  double step_s() const;  // the slowest of the last ones
  double save_s() const;
  // Whether the run must end now to end within `left` seconds, at the end of a step: another step, the save that is
  // due now, and the last one might be too much; one that is under way is waited for in any case.
  bool must_stop(double left, bool save_under_way, bool save_due) const;

 private:
  double first_save_s_;
  std::deque<double> steps_, saves_;
};

}  // namespace fp
