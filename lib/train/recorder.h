// Everything a run writes for people: log, progress line, metrics.jsonl, TensorBoard events, report.html.
#pragma once

#include <filesystem>
#include <memory>
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
  // Goes on after `resume_step` (0: a fresh run) in the run directory.
  Recorder(const RunSpec&, const std::filesystem::path& directory, int64_t resume_step, RunFacts facts);

  void step(const StepMetrics&);
  void event(int64_t step, const std::string& text, log::Level = log::Level::info);
  void sample(int64_t step, const std::string& prompt, const std::string& text);
  // Rewrites report.html and report.json.
  void report(const std::string& status);
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  LoggingSection logging_;
  RunFacts facts_;
  MetricsWriter metrics_;
  std::unique_ptr<EventWriter> events_;
  Progress progress_;
};

}  // namespace fp
