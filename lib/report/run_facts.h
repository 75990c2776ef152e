// Facts about a run that a report shows beside its metrics; stored as report.json in the run directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/machine.h"

namespace fp {

// An event that the metrics do not show, e.g. "resumed from checkpoints/step-00000100".
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
  std::string objective;                   // name of train.objective; empty: unknown
  std::string initial_weights;             // where they come from; empty: unknown
  std::string length;                      // one line: steps, tokens, epochs
  std::string version;                     // version of fptrain
  int64_t parameters = 0;                  // 0: unknown
  int64_t total_steps = 0;                 // 0: unknown
  int64_t predicted_peak_bytes = 0;        // by the dry run; 0: unknown
  double predicted_tokens_per_s = 0;       // by the plan; 0: unknown
  double started = 0;                      // seconds since 1970; 0: unknown
  std::string sample_prompt, sample_text;  // generated text; empty: none
  int64_t sample_step = 0;
  std::vector<RunEvent> events;
  MachineFacts machine;
};

// Returns the facts of a run directory; defaults with the folder's name if report.json is missing. Throws DataError
// that names the file if it was not written by save_run_facts.
RunFacts load_run_facts(const std::filesystem::path& run_directory);
// As load_run_facts, for a run that continues: an invalid file is set aside (set_aside_broken), and `broken` describes
// that; otherwise `broken` is empty.
RunFacts load_facts_or_set_aside(const std::filesystem::path& run_directory, std::string& broken);
// Writes report.json.
void save_run_facts(const std::filesystem::path& run_directory, const RunFacts& facts);

}  // namespace fp
