#include "train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <utility>

#include "base/log.h"
#include "config/run_length.h"
#include "dryrun/setup.h"
#include "exec/replicas.h"
#include "io/filesystem.h"
#include "launch/early_stop.h"
#include "launch/fault.h"
#include "launch/placement.h"
#include "optim/learning_rate.h"
#include "report/signals.h"
#include "train/coordination.h"
#include "train/restarts.h"
#include "train/trainer_internal.h"

namespace fp {

// Only rank 0 has a recorder, which writes the output for people.
void Trainer::event(int64_t step, const std::string& text, log::Level level) {
  if (recorder_) recorder_->event(step, text, level);
}
void Trainer::report(const std::string& status) {
  if (recorder_) recorder_->report(status);
}
void Trainer::record_memory() {
  const MemoryPeaks m{static_cast<int64_t>(prediction_.arena_bytes),
                      static_cast<int64_t>(arena_->peak()),
                      predicted_peak(),
                      memory_->peak(),
                      static_cast<int64_t>(prediction_.offloaded_bytes),
                      host_arena_ ? static_cast<int64_t>(host_arena_->peak()) : 0};
  const std::string text = gather_memory_report(m, *groups_.world);
  if (recorder_)
    recorder_->write_beside("memory.json",
                            [file = directory_ / "memory.json", text] { write_file_atomically(file, text); });
}
// Writes the last report of a run, before its ranks end.
void Trainer::finish_report(const std::string& status) {
  report(status);
  if (recorder_) recorder_->finish();
}
// Called while an exception is handled.
void Trainer::record_failure() {
  if (!recorder_ || !owns_directory()) return;  // the report may be another run's now
  try {
    throw;
  } catch (const DivergedError&) {  // reported by accept()
  } catch (const std::exception& e) {
    recorder_->note(at_.step, e.what());
    report("failed");
  } catch (...) {
  }
}
bool Trainer::owns_directory() const {
  try {
    if (lease_) lease_->require_lately();
    return true;
  } catch (const UserError&) {
    return false;
  }
}
void Trainer::log_comparison() const {
  const std::string text = compare_with_prediction(
      {request_.forecast, predicted_peak(), sent_bytes(prediction_.traffic)}, {step_ms_, memory_->peak(), sent_});
  if (leads() && !text.empty()) log::info("predicted and measured\n{}", text);
}
void Trainer::enter(const char* phase) {
  groups_.record->enter_phase(phase, at_.step);
  maybe_fault(groups_.world->rank(), at_.step, phase);
}

// Loads this rank's samples of the step whose samples begin at `first`.
void Trainer::load_step(uint64_t first, std::vector<Batch>& batches) const {
  const int64_t samples = global_batch_at(spec_.train, first), each = spec_.train.micro_batch;
  const int64_t ranks = groups_.mesh.dp();
  batches.resize(static_cast<size_t>(samples / each / ranks));
  // Micro-batches are assigned to the data-parallel ranks round-robin.
  for (size_t i = 0; i < batches.size(); ++i)
    data_.fill(
        first + (i * static_cast<size_t>(ranks) + static_cast<size_t>(groups_.at.dp)) * static_cast<size_t>(each), each,
        batches[i]);
}

void Trainer::load_batches() {
  if (!prefetch_) prefetch_.emplace([this](uint64_t first, std::vector<Batch>& batches) { load_step(first, batches); });
  const uint64_t next = at_.consumed + static_cast<uint64_t>(global_batch_at(spec_.train, at_.consumed));
  prefetch_->take(at_.consumed, at_.step + 1 < spec_.train.steps ? std::optional(next) : std::nullopt, batches_);
  at_.consumed = next;
}

// Returns whether the update may be applied. Non-finite values throw under policy stop, or after too many skips.
bool Trainer::accept(const LossSums& sums, const GradientNorm& g) {
  if (std::isfinite(sums.loss) && g.finite) return true;
  const std::string what =
      fmt::format("step {}: {} is not finite; {}", at_.step + 1, std::isfinite(sums.loss) ? "the gradient" : "the loss",
                  executor_->diagnose(batches_));
  const bool limit = at_.skipped_in_a_row >= spec_.train.nonfinite_limit;
  if (spec_.train.nonfinite == Nonfinite::skip && !limit) {
    event(at_.step + 1, what + "; update skipped");
    return false;
  }
  event(at_.step + 1, what);
  try {
    finish_saves();
  } catch (const CommError&) {
    throw;
  } catch (const UserError& e) {  // the error to throw is that training diverged
    event(at_.step, e.what(), log::Level::error);
  }
  finish_report("diverged");
  groups_.world->barrier();  // an error thrown by others may end rank 0 before its report is written
  const std::string last =
      saved_step_ < 0 ? "no checkpoint had been saved" : fmt::format("the checkpoint of step {} is kept", saved_step_);
  throw DivergedError(fmt::format(
      "{}{}; the update was not applied, {}", what,
      limit ? fmt::format(" (train.nonfinite_limit = {} skipped steps in a row reached)", spec_.train.nonfinite_limit)
            : "",
      last));
}

// Computes the gradients of the step a second time, which must give the same bits.
LossSums Trainer::repeated(const LossSums& first) {
  const Executor::GradientChecksums before = executor_->gradient_checksums();
  const int64_t sent_before = sent_bytes(groups_.record->traffic());
  const LossSums second = executor_->accumulate(batches_);
  sent_again_ = sent_bytes(groups_.record->traffic()) - sent_before;
  const Executor::GradientChecksums after = executor_->gradient_checksums();
  const bool own = std::bit_cast<uint64_t>(first.loss) == std::bit_cast<uint64_t>(second.loss) &&
                   before.contributed == after.contributed;
  double differ[2] = {own ? 0.0 : 1.0, before == after ? 0.0 : 1.0};
  groups_.world->all_reduce(differ, Reduction::max);
  if (differ[0] == 0 && differ[1] == 0) return second;
  std::string ranks;
  for (const std::string& of_rank :
       groups_.world->all_gather(own ? "" : fmt::format("rank {} on {}", groups_.world->rank(), host_name())))
    if (!of_rank.empty()) ranks += (ranks.empty() ? "" : ", ") + of_rank;
  DeviceError error(fmt::format(
      "step {}: the same micro-batches gave different gradients when computed again (train.check_repeats); {}",
      at_.step + 1,
      ranks.empty() ? "the gradients of each rank were the same, but their sums differ: the network or "
                      "the memory of a host altered them"
                    : fmt::format("the results of {} changed: its processor or memory is faulty", ranks)));
  if (own) error.blame_another_rank();
  throw error;
}

// Returns the norm of the gradients; sets the metrics of their quantization.
GradientNorm Trainer::gradient_norm(LossSums& sums, StepMetrics& m) {
  const GradientGuard* const guard = executor_->gradient_guard();
  if (guard == nullptr) return executor_->gradient_norm(sums);
  m.widened_parameters = static_cast<double>(guard->widened());
  const GradientNorm g = executor_->gradient_norm(sums);
  m.gradient_error = guard->median_error();
  if (leads() && !guard->changes().empty()) log::info("step {}: {}", at_.step + 1, describe(guard->changes()));
  return g;
}

// Returns the metrics of the step, of which nothing is recorded yet.
StepMetrics Trainer::run_step() {
  const auto start = Clock::now();
  if (lease_) lease_->require_lately();
  enter("step");
  if (const auto fault = flip_due(groups_.world->rank(), at_.step)) {
    using enum Executor::Flipped;
    executor_->flip(fault->what == "weights"     ? weights
                    : fault->what == "moments"   ? moments
                    : fault->what == "gradients" ? gradients
                                                 : sums,
                    {fault->element, fault->bit});
  }
  groups_.record->reset_traffic();
  groups_.record->enter_phase("data", at_.step);
  load_batches();
  groups_.record->enter_phase("step", at_.step);
  LossSums sums = executor_->accumulate(batches_);
  sent_again_ = 0;
  if (spec_.train.check_repeats > 0 && (at_.step + 1) % spec_.train.check_repeats == 0) sums = repeated(sums);
  StepMetrics m;
  const GradientNorm g = gradient_norm(sums, m);
  const double lr = learning_rate(spec_.schedule, spec_.optimizer.lr, at_.step, spec_.train.steps);
  const bool accepted = accept(sums, g);
  const bool compares = compares_replicas(at_.step + 1);
  state_sums_ = {};
  if (accepted) state_sums_ = executor_->update(spec_.optimizer, lr, ++at_.updates, g.norm, compares);
  ops_.synchronize();
  if (spec_.train.check_replicas > 0 && (at_.step + 1) % spec_.train.check_replicas == 0) {
    executor_->settle_weights();
    check_replicas(*model_, ops_, state_sums_);
  }

  int64_t tokens = 0;
  for (const Batch& b : batches_) tokens += b.n * b.seq_len * groups_.mesh.dp();
  const double seconds = seconds_since(start);
  at_.skipped_in_a_row = accepted ? 0 : at_.skipped_in_a_row + 1;
  ++at_.step;
  at_.tokens += tokens;
  if (at_.step == resumed_step_ + 1) check_first_loss(sums.mean());
  at_.last_loss = sums.mean();
  at_.elapsed_s = elapsed_before_ + seconds_since(started_);

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
  if (!step_ms_.empty()) m.mfu = utilisation(m.tokens_per_s);  // the first step of a start warms up
  m.peak_bytes = memory_->peak();
  m.consumed_samples = static_cast<int64_t>(at_.consumed);
  m.elapsed_s = at_.elapsed_s;
  m.skipped = !accepted;
  if (request_.forecast) m.predicted_step_ms = request_.forecast->step_s * 1e3;
  m.predicted_peak_bytes = static_cast<double>(predicted_peak());
  constexpr size_t kRemembered = 1000;
  if (step_ms_.size() < kRemembered) step_ms_.push_back(m.step_ms);
  const TrafficTable traffic = groups_.record->traffic();
  sent_ = sent_bytes(traffic) - sent_again_;
  for (const auto& [key, sent] : traffic)
    if (key.second != CommKind::host && key.second != CommKind::recv)
      m.sent_bytes[fmt::format("{}.{}", key.first, name_of(key.second))] = sent.bytes;
  if (const int nodes = groups_.comm_world->nodes().nodes(); nodes > 1) {
    auto sent = static_cast<double>(sent_between_nodes(traffic));
    groups_.world->all_reduce(std::span(&sent, 1));
    m.between_nodes_bytes = sent / nodes;
  }
  return m;
}

// Returns whether replicas will be compared after this step, so that its update computes their sums. A save after a
// signal is not known in advance; it computes the sums in a pass of its own.
bool Trainer::compares_replicas(int64_t step) const {
  if (groups_.world->size() == 1) return false;
  const auto falls_on = [step](int64_t every) { return every > 0 && step % every == 0; };
  return falls_on(spec_.train.check_replicas) ||
         (spec_.checkpoint.check_replicas &&
          (falls_on(spec_.checkpoint.every) || (step == spec_.train.steps && spec_.checkpoint.at_end)));
}

bool Trainer::time_is_up() const {
  return spec_.train.max_minutes > 0 && seconds_since(started_) >= spec_.train.max_minutes * 60.0;
}

bool Trainer::job_time_is_up() const {
  if (!job_clock_) return false;
  const ShutdownTime::Due due_now{evaluation_is_due(), due(spec_.checkpoint.every), at_.step < spec_.train.steps};
  return shutdown_time_->must_stop(job_clock_->left() - spec_.checkpoint.time_margin_s, saver_->under_way(), due_now);
}

// All ranks stop after the same step, whichever rank got a signal or has the fastest clock.
Trainer::Events Trainer::events_of_all_ranks() {
  // A signal that one rank received in set-up may find the others past it.
  double all[] = {static_cast<double>(stopping_early() ? SIGTERM : stop_signal()), time_is_up() ? 1.0 : 0.0,
                  job_time_is_up() ? 1.0 : 0.0, saver_->busy() ? 1.0 : 0.0};
  groups_.world->all_reduce(all, Reduction::max);
  return {static_cast<int>(all[0]), all[1] > 0, all[2] > 0, all[3] > 0};
}

std::string Trainer::stop_reason(int signal) const {
  if (signal > 0) return fmt::format("{} received", signal_name(signal));
  return fmt::format(
      "{:.0f} s left of Slurm job {}: a step may take {:.1f}, {}a save {:.1f}, and {:g} are to be left "
      "(checkpoint.time_margin_s)",
      job_clock_->left(), job_->id, shutdown_time_->step_s(),
      evaluation_is_due() ? fmt::format("the evaluation that is due {:.1f}, ", shutdown_time_->evaluation_s()) : "",
      shutdown_time_->save_s(), spec_.checkpoint.time_margin_s);
}

ExitCode Trainer::run() {
  started_ = Clock::now();
  Events seen = events_of_all_ranks();
  if (seen.signal > 0 && at_.step < spec_.train.steps) {
    if (!stopping_early())
      log::info("{} received before the first step: nothing to save; the same command {}", signal_name(seen.signal),
                at_.step > 0 ? "resumes" : "begins");
    finish_report("interrupted");
    return ExitCode::interrupted;
  }
  if (at_.step >= spec_.train.steps)
    log::info("step {} is done, and train.steps = {}: nothing is left to do", at_.step, spec_.train.steps);
  while (at_.step < spec_.train.steps) {
    const auto begin = Clock::now();
    StepMetrics m = run_step();
    shutdown_time_->step_took(seconds_since(begin));
    saver_->stuck_s();  // called every step, to know since when a save hangs
    seen = events_of_all_ranks();
    const bool last = at_.step == spec_.train.steps;
    // The time that a signal or the end of a job leaves belongs to the save, and the run resumes.
    if (!seen.stop() && (seen.time_is_up || last || due(spec_.eval.every))) {
      evaluate_now(m);
      seen = events_of_all_ranks();
    }
    const bool stop = seen.stop(), late = seen.time_is_up;
    const std::string why = stop && leads() ? stop_reason(seen.signal) : "";
    if (last && stop && evaluation_is_due())
      event(at_.step,
            "the last step is not evaluated, as the run has to stop; `fptrain eval` can evaluate its checkpoint");
    if (lease_) lease_->require_lately();
    if (recorder_) recorder_->step(m);
    saver_->advance(seen.save_busy);
    take_saves();
    if (stop || late || (last && spec_.checkpoint.at_end))
      save(true);
    else if (due(spec_.checkpoint.every))
      save(false);
    if (due(spec_.checkpoint.every) || due(spec_.eval.every)) report("running");
    if (stop && !last) {
      record_memory();
      finish_report("interrupted");
      log::info("{}: state saved after step {}; {} resumes", why, at_.step,
                request_.resume == "auto" ? "the same command" : "--resume auto");
      return ExitCode::interrupted;
    }
    if (late && !last) {
      event(at_.step, fmt::format("stopped after {} minutes (train.max_minutes)", spec_.train.max_minutes));
      break;
    }
  }
  finish_saves();
  record_memory();
  log_comparison();
  finish_report("finished");
  log_end();
  return ExitCode::ok;
}

void Trainer::log_end() const {
  const int saves = saver_->saves();
  const double seconds = seconds_since(started_);
  if (saves > 0)
    log::info("{} save{} of {:.2g} s; training waited {:.2g} s for {} ({:.1f} % of its time)", saves,
              saves == 1 ? "" : "s, the longest", saver_->longest_save(), saver_->stalled_s(),
              saves == 1 ? "it" : "them", 100 * saver_->stalled_s() / seconds);
  log::info("done: {} step{}, report in {}", at_.step, at_.step == 1 ? "" : "s", (directory_ / "report.html").string());
}

ExitCode run_training(const TrainRequest& request, Ops& ops, CountingOps& counting, World& world, const Mesh& mesh) {
  std::optional<StopSignals> signals;  // active after set-up, and destroyed after the trainer
  Trainer trainer(request, ops, counting, world, mesh);
  signals.emplace();
  try {
    return trainer.run();
  } catch (...) {
    // Notify the other ranks before destroying what may block: a save, a read of data that hangs.
    trainer.record_failure();
    trainer.flush_files();
    if (request.on_failure) request.on_failure();
    throw;
  }
}

}  // namespace fp
