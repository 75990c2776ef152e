// Reads and writes metrics.jsonl: one JSON object per logged step, from which the report is drawn.
//
// Steps strictly increase: a resumed run first drops the lines after its checkpoint.
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

#include "io/growing_file.h"

namespace fp {

// One optimizer step. A double that is not finite is written as null and read back as NaN.
struct StepMetrics {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  int64_t step = 0;             // number of this optimizer step (the first is 1)
  double loss = kUnknown;       // mean cross entropy of the step's batch, nats per valid token; DPO: mean of pairs
  double lr = 0;                // learning rate of the update
  double grad_norm = kUnknown;  // global L2 norm before clipping
  int64_t tokens = 0;           // tokens trained on since the run began, this step included
  double tokens_per_s = 0;      // of this step
  double step_ms = 0;           // wall time of this step, evaluation and saving excluded
  double mfu = kUnknown;        // model FLOPs utilisation, 0..1; null when the machine's peak is unknown, and in the
                                // first step of a start, which warms up
  int64_t peak_bytes = 0;       // peak memory of this process so far
  int64_t consumed_samples = 0;
  double elapsed_s = 0;            // wall time since the run began, evaluation and saving included, summed over resumes
  std::optional<double> val_loss;  // nats per token on the held-out split; only on steps that evaluate
  std::optional<double> val_perplexity;     // exp(val_loss)
  std::optional<double> val_bits_per_byte;  // per byte of the held-out text, comparable between tokenizers
  // The same of each validation dataset, by label, if there are several.
  std::map<std::string, double> val_loss_of, val_bits_per_byte_of;
  // The mean loss of each range of positions and its standard error, by "BEGIN-END"; only with eval.by_position.
  std::map<std::string, double> val_loss_at, val_loss_error_at;
  // Only with train.objective dpo, for the step's batch and for held-out pairs: mean reward margin, beta * (margin
  // against the reference), and the fraction of pairs whose margin is positive.
  std::optional<double> margin, accuracy, val_margin, val_accuracy;
  std::optional<double> predicted_step_ms;     // by the plan, if there is a cluster description
  std::optional<double> predicted_peak_bytes;  // by the dry run, for this process
  std::map<std::string, int64_t> sent_bytes;   // by this rank in this step, by "group.kind"; written by rank 0
  // Bytes of tensors that leave a node in this step, the mean over the nodes; only with several.
  std::optional<double> between_nodes_bytes;
  // Only with communication.max_gradient_error: the parameters whose gradients were sent with more bits than
  // communication.gradient_bits, and the median over all of the error that those bits would make.
  std::optional<double> widened_parameters, gradient_error;
  bool skipped = false;  // loss or gradient was not finite, the update was not applied
  bool resumed = false;  // first step after a resume; set by MetricsWriter
};

// Returns one line without its newline. Losses have 9 significant digits; unset optionals and false flags are omitted.
std::string to_json_line(const StepMetrics& metrics);

// Largest step of a run, as the run spec has it. Doubles represent it and twice as much exactly.
constexpr int64_t kMaxStep = 1'000'000'000'000'000;

// Parses a line. Returns nullopt unless it is one complete object with `step`, from 0 to kMaxStep, and `loss`. Ignores
// unknown keys.
std::optional<StepMetrics> parse_json_line(std::string_view line);

// Calls `visit` on every step of the file in order. Skips an incomplete last line (a crash, or a write in progress).
// Throws DataError with path:line if an invalid line is followed by valid ones or steps do not increase.
void for_each_step(const std::filesystem::path& file, const std::function<void(const StepMetrics&)>& visit);

// Appends steps to metrics.jsonl.
class MetricsWriter {
 public:
  // Opens or creates `file` to continue after step `resume_step` (0: a fresh run). An incomplete last line and every
  // line with a later step are cut off in one truncation. A file that for_each_step refuses is set aside
  // (set_aside_broken), and a new one begins with the largest set of its valid lines whose steps increase. Throws
  // DataError if the file cannot be opened.
  MetricsWriter(const std::filesystem::path& file, int64_t resume_step);

  // Appends one line, as GrowingFile::append. The step must be greater than the last one.
  void append(StepMetrics metrics);

  // Describes the damage to the file and how it was repaired; empty if there was none.
  const std::string& repair() const { return repair_; }

  // The last step in the file, from which a resumed run continues (elapsed_s, tokens).
  const std::optional<StepMetrics>& last() const { return last_; }
  // The step after last() that was cut off, as the run before the resume recorded it.
  const std::optional<StepMetrics>& next_before() const { return next_before_; }

 private:
  int64_t begin_anew(const std::filesystem::path& file, int64_t resume_step, const std::string& damage);

  std::optional<GrowingFile> file_;
  std::string repair_;
  bool mark_resumed_ = false;
  std::optional<StepMetrics> last_, next_before_;
};

}  // namespace fp
