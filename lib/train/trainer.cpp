#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "base/filesystem.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/storage.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "exec/replicas.h"
#include "launch/fault.h"
#include "optim/learning_rate.h"
#include "plan/layout.h"
#include "report/signals.h"
#include "train/dry_run.h"
#include "train/evaluation.h"
#include "train/memory_watch.h"
#include "train/op_timer.h"
#include "train/progression.h"
#include "train/recorder.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/setup.h"
#include "train/together.h"
#include "train/weight_source.h"

namespace fp {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Trainer {
 public:
  Trainer(const TrainRequest&, Ops&, CountingOps&, World&, const Mesh&);
  ExitCode run();

 private:
  void prepare_directory();
  void start_or_resume();
  void find_reference(bool resuming);
  void start_afresh();
  void restore(const Checkpoint&);
  void run_step();
  void load_batches();
  bool accept(const LossSums&, const GradientNorm&);
  void evaluate_now(StepMetrics&);
  void save(bool must_succeed);
  bool time_is_up() const;
  bool leads() const { return groups_.world->rank() == 0; }
  void event(int64_t step, const std::string& text, log::Level = log::Level::info);
  void report(const std::string& status);
  void enter(const char* phase);
  int64_t predicted_peak() const { return memory_->before() + static_cast<int64_t>(prediction_.device_bytes()); }
  TrainState state() const;
  RunFacts facts() const;
  bool due(int64_t every) const { return every > 0 && at_.step % every == 0; }

  TrainRequest request_;
  const RunSpec& spec_;
  Ops& ops_;
  Groups groups_;
  std::filesystem::path directory_, checkpoints_;
  std::optional<storage::FolderLock> lock_;
  RunData data_;
  ModelSection section_;
  Prediction prediction_;
  std::optional<Arena> arena_;
  std::optional<Model> model_;
  std::optional<Executor> executor_;
  std::optional<Recorder> recorder_;
  Progression at_;
  int64_t saved_step_ = -1;
  std::optional<MemoryWatch> memory_;
  double gemm_rate_ = 0, flops_per_token_ = 0;
  Clock::time_point started_ = Clock::now();
  double elapsed_before_ = 0;
  std::vector<Batch> batches_;
  std::map<std::string, std::string> carried_;  // files of an imported model, kept for its export
};

Trainer::Trainer(const TrainRequest& request, Ops& ops, CountingOps& counting, World& world, const Mesh& mesh)
    : request_(request),
      spec_(request_.spec),
      ops_(ops),
      groups_(make_groups(world, mesh)),
      directory_(spec_.run.directory),
      checkpoints_(directory_ / "checkpoints"),
      data_(spec_),
      section_(with_vocab(spec_.model, data_.train().tokenizer().vocab_size())) {
  data_.check_vocab(section_.vocab);
  prediction_ = dry_run(spec_, section_, counting, mesh, world.rank());
  require_fit_together(prediction_, ops_, *groups_.world);
  flops_per_token_ = model_flops_per_token(section_, spec_.data.seq_len);
  prepare_directory();
  start_or_resume();
}

void Trainer::prepare_directory() {
  on_rank_0(*groups_.world, [&] {
    std::error_code error;
    std::filesystem::create_directories(checkpoints_, error);
    if (error)
      throw DataError(fmt::format("{}: cannot create the run directory: {}", directory_.string(), error.message()));
    lock_.emplace(directory_);
    clean_leftovers(checkpoints_);
    return std::string();
  });
}

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

void Trainer::start_or_resume() {
  ParamTable table;
  declare_parameters(section_, table);
  const auto checkpoint = choose_checkpoint(request_.resume, checkpoints_, table, *groups_.world);
  on_rank_0(*groups_.world, [&] {
    log::tee_to(directory_ / "log.txt");
    RunSpec resolved = spec_;
    resolved.model = section_;
    write_file_atomically(directory_ / "config.yaml", dump(resolved));
    write_file_atomically(directory_ / "plan.txt", describe(prediction_, spec_) + explain(prediction_));
    return std::string();
  });

  gemm_rate_ = peak_rate(ops_, compute_type(spec_.precision)).flops;  // of all ranks at the same time
  groups_.world->all_reduce(std::span(&gemm_rate_, 1));
  memory_.emplace(ops_);
  ops_.reserve_scratch(prediction_.scratch_bytes);
  arena_.emplace(ops_.allocate(prediction_.arena_bytes, spec_.memory.huge_pages), prediction_.arena_bytes);
  model_.emplace(section_, model_options(spec_), ops_, *arena_, groups_);
  executor_.emplace(*model_, groups_, executor_options(spec_));
  find_reference(checkpoint.has_value());
  if (checkpoint)
    restore(*checkpoint);
  else
    start_afresh();
  executor_->restore_weights(at_.updates);
  if (leads()) recorder_.emplace(spec_, directory_, at_.step, facts());
  log::info("{}: {} parameters, {}, {:.2f} GiB predicted peak", describe_model(section_), prediction_.parameters,
            describe(spec_.parallel), static_cast<double>(predicted_peak()) / (1 << 30));
  if (checkpoint) event(at_.step, fmt::format("resumed from {}", checkpoint->folder().string()));
}

// DPO: scores of all answers under the reference model, from an earlier start or computed now. A resumed run keeps to
// those it began with, whatever has become of the reference model since.
void Trainer::find_reference(bool resuming) {
  ReferenceScores* scores = data_.reference();
  const auto all_have = [&](bool mine) {
    double missing = mine ? 0 : 1;
    groups_.world->all_reduce(std::span(&missing, 1));
    return missing == 0;
  };
  if (scores == nullptr || (resuming && all_have(scores->load(directory_, std::nullopt)))) return;
  const std::string& named = spec_.train.dpo.reference;
  const WeightSource source(named.empty() ? spec_.model.init_from : named);
  require_same_model(section_, source, spec_.model.init_changes);
  if (all_have(scores->load(directory_, source.identity()))) return;
  source.load(model_->params(), ops_);
  executor_->restore_weights(0);
  log::info("scoring all answers with the reference model {}", source.path().string());
  scores->compute(*executor_, spec_.train.micro_batch, directory_, source.identity(), leads());
}

void Trainer::start_afresh() {
  if (spec_.model.init_from.empty()) return model_->params().initialize(ops_, spec_.run.seed);
  const WeightSource source(spec_.model.init_from);
  require_same_model(section_, source, spec_.model.init_changes);
  source.load(model_->params(), ops_);
  carried_ = source.carried();
  log::info("initial weights from {}", source.path().string());
  if (!source.tokenizer_json().empty() &&
      parse_tokenizer(source.tokenizer_json(), source.path().string())->hash() != data_.train().tokenizer().hash())
    log::warning("model.init_from: {} comes with another tokenizer than the data: its ids may mean other text",
                 source.path().string());
}

void Trainer::restore(const Checkpoint& checkpoint) {
  const TrainState s = checkpoint.state();
  const std::string differences =
      data_differences(s.extra.value("data", nlohmann::json::object()), data_identity(spec_, data_.train()));
  if (!differences.empty() && !request_.allow_data_change)
    throw ConfigError(fmt::format(
        "{}: resuming would not continue the same sequence of samples:{}\nput the keys back, start another run, "
        "or accept it with --allow-data-change",
        checkpoint.folder().string(), differences));
  load_together(checkpoint, model_->params(), ops_, *groups_.world);
  carried_ = s.carried;
  at_ = Progression::from(s);
  saved_step_ = at_.step;
  elapsed_before_ = at_.elapsed_s;
}

TrainState Trainer::state() const {
  TrainState s = at_.state();
  s.extra["data"] = data_identity(spec_, data_.train());
  RunSpec resolved = spec_;
  resolved.model = section_;
  s.config_yaml = dump(resolved);
  s.tokenizer_json = data_.train().tokenizer().serialized();
  s.carried = carried_;
  std::set<int32_t> ends;
  for (const auto& dataset : data_.train().datasets())
    if (const auto id = dataset->end_of_message()) ends.insert(*id);
  if (!ends.empty()) s.extra["end_of_message_ids"] = ends;
  return s;
}

RunFacts Trainer::facts() const {
  RunFacts f;
  f.name = spec_.run.name;
  f.model = describe_model(section_);
  f.data = fmt::format("{} dataset(s), {} tokenizer with {} ids", data_.train().datasets().size(),
                       data_.train().tokenizer().kind(), data_.train().tokenizer().vocab_size());
  f.compute = fmt::format("{}, {}, {:.0f} GFLOP/s in large GEMMs (MFU is relative to this)", ops_.name(),
                          spec_.precision.compute, gemm_rate_ / 1e9);
  f.version = request_.version;
  f.parameters = prediction_.parameters;
  f.total_steps = spec_.train.steps;
  f.predicted_peak_bytes = predicted_peak();
  f.started = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  f.machine = inspect_machine(directory_);
  return f;
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
  sums.sum_over(*groups_.data);
  const GradientNorm g = executor_->gradient_norm();
  const double lr = learning_rate(spec_.schedule, spec_.optimizer.lr, at_.step, spec_.train.steps);
  const bool accepted = accept(sums, g);
  if (accepted) executor_->update(spec_.optimizer, lr, ++at_.updates, g.norm);
  ops_.synchronize();
  if (spec_.train.check_replicas > 0 && (at_.step + 1) % spec_.train.check_replicas == 0)
    check_replicas(model_->params(), ops_, groups_);

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
  if (executor_options(spec_).dpo) {
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
    if (key.second != CommKind::host) m.sent_bytes[fmt::format("{}.{}", key.first, name_of(key.second))] = sent.bytes;
  if (data_.has_validation() && (due(spec_.eval.every) || at_.step == spec_.train.steps)) evaluate_now(m);
  if (recorder_) recorder_->step(m);
}

void Trainer::evaluate_now(StepMetrics& m) {
  enter("evaluation");
  const EvaluationResult r = data_.evaluate(*executor_, spec_.train.micro_batch, groups_);
  m.val_loss = r.loss;
  if (executor_options(spec_).dpo) {
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

}  // namespace

ExitCode run_training(const TrainRequest& request, Ops& ops, CountingOps& counting, World& world, const Mesh& mesh) {
  return Trainer(request, ops, counting, world, mesh).run();
}

}  // namespace fp
