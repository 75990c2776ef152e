// Progress display of a running run: one live line on a terminal, plain lines in logs.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "report/metrics.h"

namespace fp {

struct ProgressOptions {
  int64_t total_steps = 0;
  int64_t console_every = 10;               // steps between plain lines; 0: none but evaluations
  std::optional<double> stop_at_elapsed_s;  // time limit on StepMetrics::elapsed_s, if any; bounds the ETA
};

// The values that both kinds of line show.
struct ProgressState {
  StepMetrics now;
  int64_t total_steps = 0;
  double eta_s = StepMetrics::kUnknown;
  std::optional<double> val_loss, val_bits_per_byte;  // of the last evaluation
};

// Capabilities of the terminal for a live line.
struct TerminalStyle {
  int columns = 80;
  bool unicode = true;
  bool colour = true;
};

// Returns the style for stderr: its current width, UTF-8 by the locale variables, colour unless NO_COLOR or TERM=dumb.
TerminalStyle terminal_style();

// Returns a line of at most `columns` - 1 columns; the least important items are left out until it fits.
std::string live_line(const ProgressState& state, const TerminalStyle& style);
// Returns a line for log files, with fixed names and units that are easy to search.
std::string plain_line(const ProgressState& state);

// Logs and displays the progress of a run on stderr.
class Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  // Clears the live line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Call after every step. Writes log lines and redraws the live line (at most ten times a second).
  void step(const StepMetrics& metrics);

  // Clears the live line; the next step() draws it again.
  void clear();

  const ProgressState& state() const { return state_; }

 private:
  void estimate();

  ProgressOptions options_;
  ProgressState state_;
  std::deque<std::pair<int64_t, double>> window_;  // recent (step, elapsed_s), for the ETA
  std::optional<std::chrono::steady_clock::time_point> drawn_;
};

}  // namespace fp
