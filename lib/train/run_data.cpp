#include "train/run_data.h"

#include "base/error.h"
#include "train/coordination.h"
#include "train/resume.h"

namespace fp {
namespace {

bool holds_out(const RunSpec& spec, const Sampler& sampler) {
  if (!spec.data.validation.empty()) return true;
  for (const auto& d : sampler.datasets())
    if (d->held_out_tokens() > 0) return true;
  return false;
}

void check_objective(Objective objective, const Sampler& sampler) {
  for (const auto& d : sampler.datasets()) {
    const bool pairs = d->documents_per_sample() == 2, masked = d->has_loss_mask();
    const std::string holds = pairs ? "preferences" : masked ? "conversations" : "text without a loss mask";
    const Objective fits = pairs ? Objective::dpo : masked ? Objective::sft : Objective::pretrain;
    if (objective != fits)
      throw ConfigError(
          fmt::format("train.objective: {}: {} holds {}, which is for {} (`fptrain data prepare --chat` "
                      "makes data for sft, --preferences for dpo)",
                      objective, d->name(), holds, fits));
  }
}

class AmongRanks : public WorkSharing {
 public:
  explicit AmongRanks(Group& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int ranks() const override { return world_.size(); }
  std::string on_rank_0(const std::function<std::string()>& work) override { return fp::on_rank_0(world_, work); }
  std::vector<std::string> on_all(const std::function<std::string()>& work) override {
    return on_all_ranks(world_, work);
  }

 private:
  Group& world_;
};

}  // namespace

RunData::RunData(const RunSpec& spec, Group& world) : RunData(spec, AmongRanks(world)) {}

RunData::RunData(const RunSpec& spec, WorkSharing&& sharing)
    : train_(spec.data, spec.run.seed, {Verify::changed, &sharing}) {
  check_objective(spec.train.objective, train_);
  if (holds_out(spec, train_)) {
    validation_.emplace(spec.data, spec.eval.samples, OpenOptions{Verify::changed, &sharing});
    check_objective(spec.train.objective, *validation_);
    if (validation_->tokenizer().hash() != train_.tokenizer().hash())
      throw DataError(
          fmt::format("{} of data.train and {} of data.validation have different tokenizers; prepare them with the "
                      "same tokenizer file",
                      train_.datasets().front()->name(), validation_->datasets().front()->name()));
  } else if (spec.eval.every > 0 && spec.eval.sample_prompt.empty()) {
    throw ConfigError(
        fmt::format("eval.every = {} has no effect: no dataset of data.train holds text out; name one in "
                    "data.validation, prepare with --validation-fraction above 0, or remove eval.every",
                    spec.eval.every));
  }
  if (spec.train.objective != Objective::dpo) return;
  nlohmann::json train = data_identity(spec, train_), held_out;
  for (const char* order : {"run.seed", "data.shuffle"}) train.erase(order);  // scores do not depend on the order
  train["precision.compute"] = name_of(spec.precision.compute);
  if (validation_) {
    held_out = {{"seq_len", spec.data.seq_len},
                {"eval.samples", spec.eval.samples},
                {"data.long_documents", name_of(spec.data.long_documents)},
                {"precision.compute", name_of(spec.precision.compute)}};
    for (const auto& d : validation_->datasets()) held_out["data"].push_back(d->identity());
  }
  reference_.emplace(train_, validation_ ? &*validation_ : nullptr, train, held_out);
}

std::vector<std::string> RunData::held_out() const {
  std::vector<std::string> identities;
  if (validation_)
    for (const auto& d : validation_->datasets()) identities.push_back(d->identity());
  return identities;
}

void RunData::check_vocab(int64_t model_vocab) const {
  train_.check_vocab(model_vocab);
  if (validation_) validation_->check_vocab(model_vocab);
}

void RunData::fill(uint64_t first, int64_t n, Batch& batch) const {
  train_.fill(first, n, batch);
  if (reference_) reference_->attach(first, batch);
}

EvaluationResult RunData::evaluate(Executor& executor, const RunSpec& spec, const Groups& groups,
                                   const std::function<bool()>& stop) const {
  EvaluationOptions options{.micro_batch = spec.train.micro_batch, .by_position = spec.eval.by_position, .stop = stop};
  options.complete = [&](uint64_t first, Batch& batch) {
    if (reference_) reference_->attach_validation(first, batch);
  };
  return fp::evaluate(executor, *validation_, groups, options);
}

}  // namespace fp
