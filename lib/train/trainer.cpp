#include "train/trainer.h"

#include <cmath>

#include "base/log.h"
#include "checkpoint/folder.h"
#include "exec/replicas.h"
#include "launch/fault.h"
#include "optim/learning_rate.h"
#include "report/signals.h"
#include "train/setup.h"
#include "train/together.h"
#include "train/trainer_internal.h"

namespace fp {

// What a run leaves for people, rank 0 writes.
void Trainer::event(int64_t step, const std::string& text, log::Level level) {
  if (recorder_) recorder_->event(step, text, level);
}
void Trainer::report(const std::string& status) {
  if (recorder_) recorder_->report(status);
}
void Trainer::enter(const char* phase) {
  groups_.record->enter_phase(phase, at_.step);
  maybe_fault(groups_.world->rank(), at_.step, phase);
}

void Trainer::load_batches() {
  const int64_t samples = global_batch_at(spec_.train, at_.consumed), each = spec_.train.micro_batch;
  const int64_t ranks = groups_.mesh.dp();
  batches_.resize(static_cast<size_t>(samples / each / ranks));
  // The data-parallel ranks take the micro-batches in turn.
  for (size_t i = 0; i < batches_.size(); ++i)
    data_.fill(at_.consumed +
                   (i * static_cast<size_t>(ranks) + static_cast<size_t>(groups_.at.dp)) * static_cast<size_t>(each),
               each, batches_[i]);
  at_.consumed += static_cast<uint64_t>(samples);
}

// Whether the update may be applied. Non-finite: throws under policy stop, or once too many were skipped.
bool Trainer::accept(const LossSums& sums, const GradientNorm& g) {
  if (std::isfinite(sums.loss) && g.finite) return true;
  const std::string what =
      fmt::format("step {}: {} is not finite; {}", at_.step + 1, std::isfinite(sums.loss) ? "the gradient" : "the loss",
                  executor_->diagnose(batches_));
  const bool limit = at_.skipped_in_a_row >= spec_.train.nonfinite_limit;
  if (spec_.train.nonfinite == "skip" && !limit) {
    event(at_.step + 1, what + "; update skipped");
    return false;
  }
  event(at_.step + 1, what);
  report("diverged");
  groups_.world->barrier();  // what the others throw may end rank 0
  const std::string last =
      saved_step_ < 0 ? "no checkpoint had been saved" : fmt::format("the checkpoint of step {} is kept", saved_step_);
  throw DivergedError(fmt::format(
      "{}{}; the update was not applied, {}", what,
      limit ? fmt::format(" (train.nonfinite_limit = {} skipped steps in a row reached)", spec_.train.nonfinite_limit)
            : "",
      last));
}

void Trainer::run_step() {
  const auto start = Clock::now();
  enter("step");
  groups_.record->reset_traffic();
  load_batches();
  LossSums sums = executor_->accumulate(batches_);
  sums.sum_over(groups_);
  const GradientNorm g = executor_->gradient_norm();
  const double lr = learning_rate(spec_.schedule, spec_.optimizer.lr, at_.step, spec_.train.steps);
  const bool accepted = accept(sums, g);
  if (accepted) executor_->update(spec_.optimizer, lr, ++at_.updates, g.norm);
  ops_.synchronize();
  if (spec_.train.check_replicas > 0 && (at_.step + 1) % spec_.train.check_replicas == 0) check_replicas(*model_, ops_);

  int64_t tokens = 0;
  for (const Batch& b : batches_) tokens += b.n * b.seq_len * groups_.mesh.dp();
  const double seconds = seconds_since(start);
  at_.skipped_in_a_row = accepted ? 0 : at_.skipped_in_a_row + 1;
  ++at_.step;
  at_.tokens += tokens;
  at_.last_loss = sums.mean();
  at_.elapsed_s = elapsed_before_ + seconds_since(started_);

  StepMetrics m;
  m.step = at_.step;
  m.loss = sums.mean();
  m.lr = lr;
  m.grad_norm = g.norm;
  if (executor_options(spec_).loss.dpo) {
    m.margin = sums.margin / static_cast<double>(sums.units);
    m.accuracy = static_cast<double>(sums.preferred) / static_cast<double>(sums.units);
  }
  m.tokens = at_.tokens;
  m.step_ms = seconds * 1e3;
  m.tokens_per_s = static_cast<double>(tokens) / seconds;
  m.mfu = m.tokens_per_s * flops_per_token_ / gemm_rate_;
  m.peak_bytes = memory_->peak();
  m.consumed_samples = static_cast<int64_t>(at_.consumed);
  m.elapsed_s = at_.elapsed_s;
  m.skipped = !accepted;
  for (const auto& [key, sent] : groups_.record->traffic())
    if (key.second != CommKind::host && key.second != CommKind::recv)
      m.sent_bytes[fmt::format("{}.{}", key.first, name_of(key.second))] = sent.bytes;
  if (data_.has_validation() && (due(spec_.eval.every) || at_.step == spec_.train.steps)) evaluate_now(m);
  if (recorder_) recorder_->step(m);
}

void Trainer::evaluate_now(StepMetrics& m) {
  enter("evaluation");
  const EvaluationResult r = data_.evaluate(*executor_, spec_.train.micro_batch, groups_);
  m.val_loss = r.loss;
  if (executor_options(spec_).loss.dpo) {
    m.val_margin = r.margin;
    m.val_accuracy = r.accuracy;
    return;
  }
  m.val_perplexity = r.perplexity;
  m.val_bits_per_byte = r.bits_per_byte;
}

void Trainer::save(bool must_succeed) {
  if (saved_step_ == at_.step) return;
  try {
    enter("save");
    const SaveOptions options{"fptrain " + request_.version, groups_.mesh, groups_.world->rank()};
    const auto path = save_together(checkpoints_, model_->params(), ops_, state(), options, *groups_.world);
    saved_step_ = at_.step;
    if (leads()) apply_retention(checkpoints_, {spec_.checkpoint.keep_last, spec_.checkpoint.keep_every});
    log::info("saved {}", path.string());
  } catch (const CommError&) {
    throw;
  } catch (const DataError& e) {
    if (must_succeed) throw;
    event(at_.step,
          fmt::format("{}; training goes on, the next save is due in {} steps", e.what(), spec_.checkpoint.every),
          log::Level::error);
  }
}

bool Trainer::time_is_up() const {
  return spec_.train.max_minutes > 0 && seconds_since(started_) >= spec_.train.max_minutes * 60.0;
}

ExitCode Trainer::run() {
  const StopSignals signals;
  started_ = Clock::now();
  while (at_.step < spec_.train.steps) {
    run_step();
    // Whoever got a signal, and whosever clock is ahead: all stop after the same step.
    double reasons[] = {static_cast<double>(stop_signal()), time_is_up() ? 1.0 : 0.0};
    groups_.world->all_reduce(reasons, Reduction::max);
    const bool stop = reasons[0] > 0, late = reasons[1] > 0, last = at_.step == spec_.train.steps;
    if (stop || late || (last && spec_.checkpoint.at_end))
      save(true);
    else if (due(spec_.checkpoint.every))
      save(false);
    if (due(spec_.checkpoint.every) || due(spec_.eval.every)) report("running");
    if (stop && !last) {
      report("interrupted");
      log::info("{} received: state saved after step {}; the same command resumes",
                signal_name(static_cast<int>(reasons[0])), at_.step);
      return ExitCode::interrupted;
    }
    if (late && !last) {
      event(at_.step, fmt::format("stopped after {} minutes (train.max_minutes)", spec_.train.max_minutes));
      break;
    }
  }
  report("finished");
  log::info("done: {} steps, report in {}", at_.step, (directory_ / "report.html").string());
  return ExitCode::ok;
}

ExitCode run_training(const TrainRequest& request, Ops& ops, CountingOps& counting, World& world, const Mesh& mesh) {
  return Trainer(request, ops, counting, world, mesh).run();
}

}  // namespace fp
