#include "train/progression.h"

namespace fp {

Progression Progression::from(const TrainState& s) try {
  return {.step = s.step,
          .updates = s.extra.at("updates"),
          .skipped_in_a_row = s.extra.at("skipped_in_a_row"),
          .consumed = s.consumed_samples,
          .tokens = s.extra.at("tokens"),
          .elapsed_s = s.extra.at("elapsed_s"),
          .last_loss = s.last_loss};
} catch (const nlohmann::json::exception& e) {
  throw DataError(fmt::format("the checkpoint of step {} lacks the progress of training: {}", s.step, e.what()));
}

TrainState Progression::state() const {
  TrainState s;
  s.step = step;
  s.consumed_samples = consumed;
  s.last_loss = last_loss;
  s.extra = {
      {"updates", updates}, {"skipped_in_a_row", skipped_in_a_row}, {"tokens", tokens}, {"elapsed_s", elapsed_s}};
  return s;
}

}  // namespace fp
