#include "data/sampling/epochs.h"

#include <cmath>

#include "base/error.h"
#include "base/human_text.h"
#include "config/load.h"
#include "config/run_length.h"

namespace fp {
namespace {

TrainSampler open_unverified(const RunSpec& spec) {
  if (spec.data.train.empty()) throw ConfigError("data.train: name at least one dataset");
  return TrainSampler(spec.data, spec.run.seed, OpenOptions{Verify::nothing});
}

// One decimal, or two significant digits of a small number: 4.3, 0.018.
std::string shown_epochs(double epochs) {
  return epochs < 0.995 ? fmt::format("{:.2g}", epochs) : fmt::format("{:.1f}", epochs);
}

std::string epochs_text(const RunSpec& spec, const TrainSampler& data) {
  constexpr size_t kMostNamed = 4;
  const std::vector<double> epochs = data.epochs(samples_of_steps(spec.train, spec.train.steps));
  std::string text;
  for (size_t i = 0; i < epochs.size() && i < kMostNamed; ++i)
    text += fmt::format(", {}{} of {}", shown_epochs(epochs[i]), i == 0 ? " epochs" : "", spec.data.train[i].path);
  return epochs.size() > kMostNamed ? fmt::format("{} and {} more", text, epochs.size() - kMostNamed) : text;
}

}  // namespace

RunSpec with_steps_of_data(RunSpec spec) {
  if (spec.train.epochs <= 0) return spec;
  const TrainSampler data = open_unverified(spec);
  uint64_t samples = 0;
  for (size_t d = 0; d < data.datasets().size(); ++d) samples += data.epoch_samples(static_cast<int>(d));
  const double wanted = std::ceil(static_cast<double>(samples) * spec.train.epochs);
  constexpr double kMostSamples = 1e18;
  if (!(wanted < kMostSamples))
    throw ConfigError(
        fmt::format("train.epochs = {}: {} samples are more than a run can count", spec.train.epochs, wanted));
  spec.train.steps = steps_of_samples(spec.train, static_cast<uint64_t>(wanted));
  spec.train.epochs = 0;
  validate(spec);
  return spec;
}

std::string describe_length(const RunSpec& spec, const TrainSampler* data) {
  const TrainSection& t = spec.train;
  const std::string batch = t.ramp_start_batch > 0 ? fmt::format("{} to {}", t.ramp_start_batch, t.global_batch)
                                                   : fmt::format("{}", t.global_batch);
  const double tokens =
      static_cast<double>(samples_of_steps(t, t.steps)) * static_cast<double>(tokens_per_sample(spec));
  return fmt::format("{} step{} x {}{} x {} = {} tokens{}{}", t.steps, t.steps == 1 ? "" : "s", batch,
                     t.objective == Objective::dpo ? " pairs x 2" : "", spec.data.seq_len, human_count(tokens),
                     spec.data.sampling == Sampling::documents ? " with padding" : "",
                     data != nullptr ? epochs_text(spec, *data) : "");
}

std::string describe_length(const RunSpec& spec) {
  try {
    const TrainSampler data = open_unverified(spec);
    return describe_length(spec, &data);
  } catch (const UserError&) {
    return describe_length(spec, nullptr);
  }
}

}  // namespace fp
