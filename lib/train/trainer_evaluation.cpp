#include "base/log.h"
#include "dryrun/setup.h"
#include "inference/text_generation.h"
#include "model/decoder.h"
#include "train/first_loss.h"
#include "train/trainer_internal.h"

namespace fp {
namespace {

constexpr const char* kEnded = "the evaluation was ended, as the run has to stop";

}  // namespace

// A rate above the peak means that the machine was busy while the peak was measured: the peak is then unknown.
double Trainer::utilisation(double tokens_per_s) {
  const double rate = tokens_per_s * flops_per_token_;
  if (rate > gemm_rate_ && gemm_rate_ > 0) {
    event(at_.step, "the machine was busy when its peak rate was measured: MFU is not known", log::Level::warning);
    gemm_rate_ = 0;
  }
  return gemm_rate_ > 0 ? rate / gemm_rate_ : StepMetrics::kUnknown;
}

void Trainer::check_first_loss(double loss) {
  if (!recorder_) return;
  const auto& again = recorder_->next_before();
  const auto found =
      compare_first_loss(at_.step, loss, again ? std::optional(again->loss) : std::nullopt, at_.last_loss);
  if (found) event(at_.step, found->text, found->suspicious ? log::Level::warning : log::Level::info);
}

// Throws ConfigError unless the prompt of the sample text fits in front of it, and DataError unless the model has its
// ids.
void Trainer::check_sample_prompt() const {
  const EvalSection& e = spec_.eval;
  if (e.sample_prompt.empty()) return;
  const std::vector<int32_t> tokens = prompt_tokens(data_.train().tokenizer(), e.sample_prompt);
  Decoder::check_ids(tokens, section_.vocab);
  const auto prompt = static_cast<int64_t>(tokens.size());
  const int64_t positions = sample_positions(spec_);
  if (prompt + e.sample_tokens > positions)
    throw ConfigError(
        fmt::format("eval.sample_prompt has {} tokens and eval.sample_tokens is {}: {} together, but a sample text of "
                    "this prompt has at most {} (data.seq_len = {})",
                    prompt, e.sample_tokens, prompt + e.sample_tokens, positions, spec_.data.seq_len));
}

bool Trainer::evaluation_is_due() const {
  return evaluated_step_ != at_.step && (data_.has_validation() || !spec_.eval.sample_prompt.empty()) &&
         (time_is_up() || at_.step == spec_.train.steps || due(spec_.eval.every));
}

// Does nothing if this step has been evaluated, or if there is nothing to evaluate.
void Trainer::evaluate_now(StepMetrics& m) {
  if (evaluated_step_ == at_.step) return;
  evaluated_step_ = at_.step;
  if (!data_.has_validation() && spec_.eval.sample_prompt.empty()) return;
  const auto start = Clock::now();
  state_sums_ = {};  // a save after the evaluation sums the state again
  enter("evaluation");
  executor_->settle_weights();
  if (data_.has_validation() && !evaluate_held_out(m)) return;
  if (!spec_.eval.sample_prompt.empty() && !write_sample()) return;
  shutdown_time_->evaluation_took(seconds_since(start));
}

// Returns false if the evaluation was ended because the run has to stop.
bool Trainer::evaluate_held_out(StepMetrics& m) {
  const EvaluationResult r =
      data_.evaluate(*executor_, spec_, groups_, [this] { return events_of_all_ranks().stop(); });
  if (r.stopped) event(at_.step, kEnded);
  if (r.stopped) return false;
  const bool pairs = executor_options(spec_).loss.dpo.has_value();
  m.val_loss = r.loss;
  for (const auto& [label, of_dataset] : r.datasets) {
    m.val_loss_of[label] = of_dataset.loss;
    if (!pairs) m.val_bits_per_byte_of[label] = of_dataset.bits_per_byte;
  }
  if (pairs) {
    m.val_margin = r.margin;
    m.val_accuracy = r.accuracy;
    return true;
  }
  for (const PositionLoss& p : r.positions) {
    m.val_loss_at[p.label()] = p.loss;
    m.val_loss_error_at[p.label()] = p.standard_error;
  }
  m.val_perplexity = r.perplexity;
  m.val_bits_per_byte = r.bits_per_byte;
  return true;
}

// All ranks generate the same text, so none waits for another. Returns false as evaluate_held_out().
bool Trainer::write_sample() {
  const EvalSection& e = spec_.eval;
  const Tokenizer& tokenizer = data_.train().tokenizer();
  GenerationOptions options;
  options.sampling = {.temperature = e.sample_temperature, .seed = spec_.run.seed};
  options.max_tokens = e.sample_tokens;
  options.stop_ids = {tokenizer.eot()};
  options.token_by_token = true;
  options.stop = [this] { return events_of_all_ranks().stop(); };
  Decoder decoder(*model_, sample_positions(spec_));
  std::string text;
  const GenerationResult r =
      generate(decoder, tokenizer, e.sample_prompt, options, [&](const std::string& piece) { text += piece; });
  if (r.interrupted) event(at_.step, kEnded);
  if (r.interrupted) return false;
  if (!recorder_) return true;
  recorder_->sample(at_.step, e.sample_prompt, text);
  log::info("sample text after step {}: {}{}", at_.step, e.sample_prompt, text);
  return true;
}

}  // namespace fp
