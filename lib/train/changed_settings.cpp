#include "train/changed_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "optim/learning_rate.h"

namespace fp {
namespace {

// They name the run and where it starts from, and change nothing that it computes.
constexpr std::array<std::string_view, 5> kNames = {"run.name", "run.directory", "model.name", "model.init_from",
                                                    "model.init_changes"};

struct Change {
  std::string key, before, now;
};

std::vector<Change> changes(const RunSpec& before, const RunSpec& now) {
  std::map<std::string, std::string> old;
  for (auto& [key, value] : flatten(before)) old.emplace(key, value);
  std::vector<Change> found;
  for (auto& [key, value] : flatten(now)) {
    const auto it = old.find(key);
    const std::string was = it == old.end() ? "absent" : it->second;
    if (it != old.end()) old.erase(it);
    if (was != value && std::ranges::find(kNames, key) == kNames.end()) found.push_back({key, was, value});
  }
  for (const auto& [key, value] : old) found.push_back({key, value, "absent"});
  return found;
}

}  // namespace

std::string changed_settings(const RunSpec& before, const RunSpec& now) {
  std::string text;
  for (const Change& c : changes(before, now))
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", c.key, c.before, c.now);
  return text;
}

std::optional<std::string> raised_learning_rate(const RunSpec& before, const RunSpec& now, int64_t step) {
  const auto rate = [](const RunSpec& spec, int64_t at) {
    return learning_rate(spec.schedule, spec.optimizer.lr, std::min(at, spec.train.steps - 1), spec.train.steps);
  };
  if (step < 1) return {};
  const double last = rate(before, step - 1), next = rate(now, step);
  constexpr double kRounding = 1.001;
  if (next <= std::max(last, rate(before, step)) * kRounding) return {};
  return fmt::format(
      "the learning rate rises from {:.3g} in step {} to {:.3g} in step {}, because the settings have "
      "changed{}",
      last, step, next, step + 1,
      now.train.steps > before.train.steps && now.optimizer.lr == before.optimizer.lr
          ? ": a longer train.steps stretches its schedule"
          : "");
}

std::string model_changes(const ModelSection& here, const ModelSection& there) {
  RunSpec a, b;
  a.model = here;
  b.model = there;
  std::string text;
  for (const Change& c : changes(b, a))
    text += fmt::format("{}{}: {} here, {} there", text.empty() ? "" : ", ", c.key, c.now, c.before);
  return text;
}

}  // namespace fp
