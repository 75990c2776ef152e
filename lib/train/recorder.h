// Everything a run writes for people: log, progress line, metrics.jsonl, TensorBoard events, report.html.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/log.h"
#include "config/run_spec.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "report/run_facts.h"
#include "report/tensorboard.h"

namespace fp {

class Recorder {
 public:
  // Goes on after `resume_step` (0: a fresh run) in the run directory. What cannot be written later on, as on a full
  // disk, is said and does not end the run.
  Recorder(const RunSpec&, const std::filesystem::path& directory, int64_t resume_step, RunFacts facts);

  void step(const StepMetrics&);
  void event(int64_t step, const std::string& text, log::Level = log::Level::info);
  void sample(int64_t step, const std::string& prompt, const std::string& text);
  // Rewrites report.html and report.json.
  void report(const std::string& status);
  // The first step after a resume, as it went before; nothing where no line of it was left.
  const std::optional<StepMetrics>& next_before() const { return metrics_.next_before(); }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  void attempt(const std::string& what, int64_t step, const std::function<void()>& write);

  std::filesystem::path directory_;
  LoggingSection logging_;
  RunFacts facts_;
  MetricsWriter metrics_;
  std::unique_ptr<EventWriter> events_;
  Progress progress_;
  std::set<std::string> failing_;
};

}  // namespace fp
