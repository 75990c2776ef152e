#include "config/run_length.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fp {
namespace {

constexpr uint64_t kMostSamples = uint64_t{1} << 63;

bool has_ramp(const TrainSection& t) {
  return t.ramp_start_batch > 0 && t.ramp_increment > 0 && t.ramp_samples > 0 && t.ramp_start_batch < t.global_batch;
}

// Samples between two rises of the batch.
double ramp_interval(const TrainSection& t) {
  const int64_t rises = (t.global_batch - t.ramp_start_batch) / t.ramp_increment;
  return static_cast<double>(t.ramp_samples) / static_cast<double>(std::max<int64_t>(1, rises));
}

struct Stretch {
  int64_t steps = 0;
  uint64_t samples = 0;
};

// Returns how many steps from `consumed` samples on have the same batch. Only called while the batch still rises.
int64_t equal_steps(const TrainSection& t, uint64_t consumed, int64_t batch) {
  const double interval = ramp_interval(t);
  const double next = (std::floor(static_cast<double>(consumed) / interval) + 1) * interval;
  const auto begins = [&](int64_t n) { return consumed + static_cast<uint64_t>(n) * static_cast<uint64_t>(batch); };
  auto n = static_cast<int64_t>(std::ceil((next - static_cast<double>(consumed)) / static_cast<double>(batch)));
  n = std::max<int64_t>(n, 1);
  while (n > 1 && global_batch_at(t, begins(n - 1)) != batch) --n;  // the estimate may be a step off
  while (global_batch_at(t, begins(n)) == batch) ++n;
  return n;
}

// Returns the first steps of a run: `most_steps` of them, or fewer that have `enough` samples.
Stretch first_steps(const TrainSection& t, int64_t most_steps, uint64_t enough) {
  Stretch run;
  while (run.steps < most_steps && run.samples < enough) {
    const int64_t batch = global_batch_at(t, run.samples);
    const uint64_t each = static_cast<uint64_t>(batch), missing = enough - run.samples;
    int64_t n = most_steps - run.steps;
    const uint64_t needed = missing / each + (missing % each > 0 ? 1 : 0);
    if (needed < static_cast<uint64_t>(n)) n = static_cast<int64_t>(needed);
    if (batch < t.global_batch) n = std::min(n, equal_steps(t, run.samples, batch));
    run.steps += n;
    const unsigned __int128 samples = static_cast<unsigned __int128>(n) * each + run.samples;
    run.samples = samples < kMostSamples ? static_cast<uint64_t>(samples) : kMostSamples;
  }
  return run;
}

}  // namespace

int64_t global_batch_at(const TrainSection& t, uint64_t consumed) {
  if (!has_ramp(t) || consumed >= static_cast<uint64_t>(t.ramp_samples)) return t.global_batch;
  const auto k = static_cast<int64_t>(static_cast<double>(consumed) / ramp_interval(t));
  return std::min(t.global_batch, t.ramp_start_batch + k * t.ramp_increment);
}

uint64_t samples_of_steps(const TrainSection& t, int64_t steps) { return first_steps(t, steps, kMostSamples).samples; }

int64_t steps_of_samples(const TrainSection& t, uint64_t samples) {
  return std::max<int64_t>(1, first_steps(t, std::numeric_limits<int64_t>::max(), samples).steps);
}

int64_t tokens_per_sample(const RunSpec& spec) {
  return spec.data.seq_len * (spec.train.objective == Objective::dpo ? 2 : 1);
}

int64_t steps_of_tokens(const RunSpec& spec, int64_t tokens) {
  const int64_t each = tokens_per_sample(spec);
  return steps_of_samples(spec.train, static_cast<uint64_t>((tokens + each - 1) / each));
}

}  // namespace fp
