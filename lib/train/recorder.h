// Everything a run writes for people: log, progress line, metrics.jsonl, TensorBoard events, report.html. A thread of
// its own writes the files: while a disk hangs, steps go on, and what they have to tell waits in memory.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/work_queue.h"
#include "config/run_spec.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "report/run_facts.h"

namespace fp {

class RunFiles;

class Recorder {
 public:
  // Goes on after `resume_step` (0: a fresh run) in the run directory. Files of earlier starts that are broken are set
  // aside, which an event says. What cannot be written later on, as on a full disk, is said and does not end the run.
  // At most `most_waiting` steps wait for a disk that hangs; later ones are left out, which an event says afterwards.
  Recorder(const RunSpec&, const std::filesystem::path& directory, int64_t resume_step, RunFacts facts,
           size_t most_waiting = 50000);
  ~Recorder();

  void step(const StepMetrics&);
  void event(int64_t step, const std::string& text, log::Level = log::Level::info);
  void sample(int64_t step, const std::string& prompt, const std::string& text);
  // Rewrites report.html and report.json; of several that wait the last.
  void report(const std::string& status);
  // Further files of the run, after those before. `write` owns what it needs; its DataError becomes an event.
  void write_beside(const std::string& what, std::function<void()> write);
  // Waits until the files have all that was said, but no longer than so many seconds; whether they have.
  bool flush(double seconds);
  // The last flush of a run that ends: an error says what is missing.
  void finish(double seconds = 60);
  // The first step after a resume, as it went before; nothing where no line of it was left.
  const std::optional<StepMetrics>& next_before() const { return next_before_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  bool post(const std::string& what, std::function<void(RunFiles&)> write);
  void tell_failures();
  void watch_disk();

  std::filesystem::path directory_;
  LoggingSection logging_;
  RunFacts facts_;
  std::optional<StepMetrics> next_before_;
  int64_t step_ = 0;  // the last that was told
  std::shared_ptr<RunFiles> files_;
  std::optional<Progress> progress_;
  int64_t left_out_ = 0, first_left_out_ = 0;  // steps
  bool disk_hangs_ = false;                    // which an event has said
  WorkQueue queue_;                            // its work ends before what it uses
};

}  // namespace fp
