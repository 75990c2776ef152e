// Writes a run's output for people: log, progress line, metrics.jsonl, TensorBoard events, report.html. A thread of its
// own writes the files: while a disk hangs, training continues and its records wait in memory.
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
  // Appends to the files in the run directory after `resume_step` (0: a fresh run). Broken files of earlier starts are
  // set aside, with an event. Another event says why the start before ended, if it could not write that itself. Later
  // write errors, as on a full disk, are reported as events and do not end the run. At most `most_waiting` steps wait
  // for a disk that hangs; further steps are dropped, which an event reports afterwards.
  Recorder(const RunSpec&, const std::filesystem::path& directory, int64_t resume_step, RunFacts facts,
           size_t most_waiting = 50000);
  ~Recorder();

  void step(const StepMetrics&);
  // Adds an event to the report and logs it; note() only adds it.
  void event(int64_t step, const std::string& text, log::Level = log::Level::info);
  void note(int64_t step, const std::string& text);
  void sample(int64_t step, const std::string& prompt, const std::string& text);
  // Rewrites report.html and report.json. When several calls wait, only the last is written.
  void report(const std::string& status);
  // Queues `write`, which writes another file of the run, after what was queued before. `write` must own what it uses;
  // its DataError becomes an event.
  void write_beside(const std::string& what, std::function<void()> write);
  // Waits at most `seconds` until everything queued is written. Returns whether it is.
  bool flush(double seconds);
  // The last flush of a run that ends. Logs an error when something could not be written in time.
  void finish(double seconds = 60);
  // Returns the metrics of the first step after a resume from when it was run before; nullopt when it was not recorded.
  const std::optional<StepMetrics>& next_before() const { return next_before_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  bool post(const std::string& what, std::function<void(RunFiles&)> write);
  void log_failures();
  void watch_disk();
  void resume_facts(int64_t resume_step);

  std::filesystem::path directory_;
  LoggingSection logging_;
  RunFacts facts_;
  std::optional<StepMetrics> next_before_;
  int64_t step_ = 0;  // the last one recorded
  std::shared_ptr<RunFiles> files_;
  std::optional<Progress> progress_;
  int64_t dropped_ = 0, first_dropped_ = 0;  // steps
  bool disk_hangs_ = false;                  // reported by an event
  WorkQueue queue_;                          // last, so that its work ends before the members it uses
};

}  // namespace fp
