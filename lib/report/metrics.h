// metrics.jsonl: one JSON object per logged step, the history from which a run's report is drawn.
//
// The file is one monotone history: steps only grow, and a resumed run first drops what came after its checkpoint.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "report/growing_file.h"

namespace fp {

// One optimizer step. A double that is not finite is written as null and read back as NaN.
struct StepMetrics {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  int64_t step = 0;             // optimizer steps taken, this one included (the first is 1)
  double loss = kUnknown;       // mean cross entropy of the step's batch, nats per valid token; DPO: mean of pairs
  double lr = 0;                // learning rate the update used
  double grad_norm = kUnknown;  // global L2 norm before clipping
  int64_t tokens = 0;           // tokens trained on since the run began, this step included
  double tokens_per_s = 0;      // of this step
  double step_ms = 0;           // wall time of this step, evaluation and saving excluded
  double mfu = kUnknown;        // model FLOPs utilisation, 0..1; null when the machine's peak is unknown
  int64_t peak_bytes = 0;       // peak memory of this process so far
  int64_t consumed_samples = 0;
  double elapsed_s = 0;            // wall time since the run began, evaluation and saving included, resumes added up
  std::optional<double> val_loss;  // nats per token on the held-out split; only on steps that evaluate
  std::optional<double> val_perplexity;     // exp(val_loss)
  std::optional<double> val_bits_per_byte;  // of the held-out text, so that tokenizers compare
  // Only under train.objective dpo: mean reward margin, beta * (margin against the reference), and the share of pairs
  // whose margin is positive, of the step's batch and held out.
  std::optional<double> margin, accuracy, val_margin, val_accuracy;
  std::optional<double> predicted_step_ms;     // by the plan, where a cluster's figures were at hand
  std::optional<double> predicted_peak_bytes;  // by the dry run, of this process
  std::map<std::string, int64_t> sent_bytes;   // by this rank in this step, "group.kind"; of several ranks, rank 0
  bool skipped = false;                        // loss or gradient was not finite: the update was not applied
  bool resumed = false;                        // first step after a resume; set by MetricsWriter
};

// One line without its newline. Losses have 9 significant digits; unset options and false flags are left out.
std::string to_json_line(const StepMetrics& metrics);

// The reverse; nothing when the line is not one complete object with `step` and `loss`. Unknown keys are ignored.
std::optional<StepMetrics> parse_json_line(std::string_view line);

// Calls `visit` on every step of the file in order. A torn tail (crash, or a write under way) is left out. DataError
// with path:line when a broken line is followed by good ones or steps do not grow.
void for_each_step(const std::filesystem::path& file, const std::function<void(const StepMetrics&)>& visit);

class MetricsWriter {
 public:
  // Opens or creates `file` to go on after step `resume_step` (0: a fresh run). A torn tail and every line with a later
  // step are cut off in one truncation. A file that for_each_step refuses is set aside (set_aside_broken), and a new
  // one begins with its sound lines: the most of them whose steps grow. DataError when the file cannot be opened.
  MetricsWriter(const std::filesystem::path& file, int64_t resume_step);

  // Appends one line, as GrowingFile::append. The step must be greater than the last one.
  void append(StepMetrics metrics);

  // What was wrong with the file and became of it; empty: nothing.
  const std::string& repair() const { return repair_; }

  // The last step in the file: what a resumed run goes on from (elapsed_s, tokens).
  const std::optional<StepMetrics>& last() const { return last_; }
  // The step after it, as it went before it was cut off.
  const std::optional<StepMetrics>& next_before() const { return next_before_; }

 private:
  int64_t begin_anew(const std::filesystem::path& file, int64_t resume_step, const std::string& damage);

  std::optional<GrowingFile> file_;
  std::string repair_;
  bool mark_resumed_ = false;
  std::optional<StepMetrics> last_, next_before_;
};

}  // namespace fp
