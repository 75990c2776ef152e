// What a report tells about a run beside its metrics; kept as report.json in the run directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "report/machine.h"

namespace fp {

// Something worth telling that the metrics do not show, e.g. "resumed from checkpoints/step-00000100".
struct RunEvent {
  int64_t step = 0;
  double time = 0;  // seconds since 1970
  std::string text;
};

struct RunFacts {
  std::string name;
  std::string status;                      // running | finished | interrupted | diverged | failed; empty: unknown
  std::string model;                       // one line: family and shape
  std::string data;                        // one line: corpus and tokenizer
  std::string compute;                     // one line: device, threads, precision
  std::string version;                     // of fptrain
  int64_t parameters = 0;                  // 0: unknown
  int64_t total_steps = 0;                 // 0: unknown
  int64_t predicted_peak_bytes = 0;        // by the dry run; 0: unknown
  double predicted_tokens_per_s = 0;       // by the plan; 0: unknown
  double started = 0;                      // seconds since 1970; 0: unknown
  std::string sample_prompt, sample_text;  // text the model wrote; empty: none
  int64_t sample_step = 0;
  std::vector<RunEvent> events;
  MachineFacts machine;
};

// The facts of a run directory; defaults named after the folder where report.json is missing. DataError naming the file
// when it is not what save_run_facts wrote.
RunFacts load_run_facts(const std::filesystem::path& run_directory);
// The same of a run that goes on: a broken file is set aside (set_aside_broken), and `broken` says so; else it is
// empty.
RunFacts facts_of_earlier_starts(const std::filesystem::path& run_directory, std::string& broken);
void save_run_facts(const std::filesystem::path& run_directory, const RunFacts& facts);

}  // namespace fp
