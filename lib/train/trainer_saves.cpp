#include "base/log.h"
#include "exec/replicas.h"
#include "train/restarts.h"
#include "train/trainer_internal.h"

namespace fp {
namespace {

constexpr double kMetricsFirst = 1;  // seconds that a save waits for earlier metrics to be written
constexpr double kSaveHangs = 60;    // seconds without any progress of a save
constexpr double kOpeningHangs = 1;  // seconds without any progress in creating its folder

}  // namespace

void Trainer::save(bool must_succeed) {
  if (saved_step_ == at_.step) return;
  executor_->settle_weights();
  enter("save");
  // metrics.jsonl should have all steps of a checkpoint, unless the disk hangs, and with it the save.
  if (recorder_) recorder_->flush(kMetricsFirst);
  // Waiting for the save in progress may take minutes, in which memory may change; these sums would no longer prove
  // what is saved, so the check sums the state anew.
  if (saver_->under_way()) state_sums_ = {};
  if (!must_succeed && !free_for_next_save()) return;
  if (spec_.checkpoint.check_replicas) check_replicas(*model_, ops_, state_sums_);
  if (must_succeed)
    saver_->save_now(state());
  else
    saver_->begin(state(), kOpeningHangs);
  take_saves(must_succeed);
}

// Returns whether the next save can begin; if not, the one in progress hangs and this one is skipped.
bool Trainer::free_for_next_save() {
  const bool ready = saver_->ready_for_next(kSaveHangs);
  take_saves();
  if (!ready)
    event(
        at_.step,
        fmt::format("the save that is due after this step is skipped, because the one in progress has made no progress "
                    "for {:g} s; training continues",
                    kSaveHangs),
        log::Level::error);
  return ready;
}

void Trainer::finish_saves() {
  enter("save");
  saver_->finish();
  take_saves();
}

// Handles the results of the saves that have ended. With `must_succeed`, a failed save of this step throws.
void Trainer::take_saves(bool must_succeed) {
  for (const Saver::Saved& s : saver_->take_outcomes()) {
    if (s.error.empty()) {
      saved_step_ = s.step;
      shutdown_time_->save_took(s.seconds);
      if (job_ && recorder_)
        recorder_->write_beside(
            "restarts.json", [file = directory_ / "restarts.json", seconds = s.seconds, ranks = groups_.world->size()] {
              record_save(file, {seconds, ranks});
            });
      log::info("saved {} ({})", s.path.string(), describe(s));
    } else if (must_succeed && s.step == at_.step) {
      throw DataError(s.error, s.code);
    } else {
      const int64_t next = s.step + spec_.checkpoint.every;
      event(at_.step,
            next <= spec_.train.steps
                ? fmt::format("{}; training continues, the next save is due after step {}", s.error, next)
                : fmt::format("{}; no further save is due in this run", s.error),
            log::Level::error);
    }
    if (s.overran)
      event(at_.step,
            fmt::format("the save of step {} was not finished when the next was due, and delayed it: checkpoint.every "
                        "= {} steps is shorter than a save takes here",
                        s.step, spec_.checkpoint.every),
            log::Level::warning);
  }
}

}  // namespace fp
