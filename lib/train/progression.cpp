#include "train/progression.h"

#include "io/json_numbers.h"

namespace fp {

namespace {

// Throws a DataError.
[[noreturn]] void refuse(const TrainState& s, const std::exception& e) {
  throw DataError(fmt::format("the checkpoint of step {} lacks the progress of training: {}", s.step, e.what()));
}

constexpr const char* kGuard = "gradient_guard";
constexpr const char* kGuardSteps = "steps";
constexpr const char* kGuardBits = "bits";
constexpr const char* kGuardFewest = "fewest_bits";

std::optional<GradientGuardState> guard_of(const nlohmann::json& extra) {
  const auto found = extra.find(kGuard);
  if (found == extra.end()) return std::nullopt;
  GradientGuardState guard{integer_from<int64_t>(found->at(kGuardSteps), kGuardSteps, 0), {}};
  if (const auto fewest = found->find(kGuardFewest); fewest != found->end())  // older checkpoints lack it
    guard.fewest = integer_from<int>(*fewest, kGuardFewest, 0, 32);
  for (const auto& [name, bits] : found->at(kGuardBits).get_ref<const nlohmann::json::object_t&>())
    guard.bits[name] = integer_from<int>(bits, kGuardBits, 0, 32);
  return guard;
}

}  // namespace

Progression Progression::from(const TrainState& s) try {
  const auto count = [&](const char* key) { return integer_from<int64_t>(s.extra.at(key), key, 0); };
  return {.step = s.step,
          .updates = count("updates"),
          .skipped_in_a_row = count("skipped_in_a_row"),
          .consumed = s.consumed_samples,
          .tokens = count("tokens"),
          .elapsed_s = s.extra.at("elapsed_s"),
          .guard = guard_of(s.extra),
          .last_loss = s.last_loss};
} catch (const nlohmann::json::exception& e) {
  refuse(s, e);
} catch (const JsonError& e) {
  refuse(s, e);
}

TrainState Progression::state() const {
  TrainState s;
  s.step = step;
  s.consumed_samples = consumed;
  s.last_loss = last_loss;
  s.extra = {
      {"updates", updates}, {"skipped_in_a_row", skipped_in_a_row}, {"tokens", tokens}, {"elapsed_s", elapsed_s}};
  if (guard) s.extra[kGuard] = {{kGuardSteps, guard->steps}, {kGuardBits, guard->bits}, {kGuardFewest, guard->fewest}};
  return s;
}

}  // namespace fp
