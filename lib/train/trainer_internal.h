// The implementation of run_training(): set-up is in trainer_setup.cpp, the training loop in trainer.cpp, and what it
// calls beside steps in trainer_evaluation.cpp and trainer_saves.cpp.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "checkpoint/folder.h"
#include "dryrun/dry_run.h"
#include "dryrun/memory_watch.h"
#include "interop/weight_source.h"
#include "io/lease.h"
#include "launch/slurm.h"
#include "model/groups.h"
#include "train/batch_prefetch.h"
#include "train/progression.h"
#include "train/recorder.h"
#include "train/run_data.h"
#include "train/saver.h"
#include "train/shutdown_time.h"
#include "train/trainer.h"

namespace fp {

class Trainer {
 public:
  Trainer(const TrainRequest&, Ops&, CountingOps&, World&, const Mesh&);
  ExitCode run();
  // Adds the exception that is being handled to the report.
  void record_failure();
  // Writes the remaining records for people and closes their files.
  void flush_files() {
    if (recorder_) recorder_->flush(2);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void prepare_directory();
  void start_or_resume();
  void warn_of_uneven_nodes();
  void describe_run() const;
  void join_job(int64_t step);
  WeightSource open_model(const std::string& key, const std::string& path);
  void find_reference(const std::optional<Checkpoint>& resumed);
  void require_same_reference(const Checkpoint&, const WeightSource&) const;
  void start_afresh();
  std::optional<Checkpoint> restore(std::optional<Checkpoint>, DamagedCheckpoints);
  void set_aside_on_all_ranks(const DamagedCheckpoints&);
  void require_same_data(const Checkpoint&) const;
  void compare_settings(const std::string& config_yaml);
  StepMetrics run_step();
  LossSums repeated(const LossSums& first);
  GradientNorm gradient_norm(LossSums&, StepMetrics&);
  double utilisation(double tokens_per_s);
  void check_first_loss(double loss);
  void load_batches();
  void load_step(uint64_t first, std::vector<Batch>&) const;
  bool accept(const LossSums&, const GradientNorm&);
  void check_sample_prompt() const;
  bool evaluation_is_due() const;
  void evaluate_now(StepMetrics&);
  bool evaluate_held_out(StepMetrics&);
  bool write_sample();
  void save(bool must_succeed);
  void take_saves(bool must_succeed = false);
  bool free_for_next_save();
  void finish_saves();
  // Each is what any of the ranks has seen.
  struct Events {
    int signal = 0;  // 0: none
    bool time_is_up = false, job_ends = false, save_busy = false;
    bool stop() const { return signal > 0 || job_ends; }
  };
  Events events_of_all_ranks();
  bool time_is_up() const;
  bool job_time_is_up() const;
  std::string stop_reason(int signal) const;
  bool owns_directory() const;
  bool leads() const { return groups_.world->rank() == 0; }
  void event(int64_t step, const std::string& text, log::Level = log::Level::info);
  void report(const std::string& status);
  void finish_report(const std::string& status);
  void record_memory();
  void log_comparison() const;
  void log_end() const;
  void enter(const char* phase);
  int64_t predicted_peak() const { return memory_->before() + static_cast<int64_t>(prediction_.device_bytes()); }
  TrainState state() const;
  RunFacts facts() const;
  bool due(int64_t every) const { return every > 0 && at_.step % every == 0; }
  bool compares_replicas(int64_t step) const;

  const std::filesystem::file_time_type start_ = std::filesystem::file_time_type::clock::now();
  TrainRequest request_;
  const RunSpec& spec_;
  Ops& ops_;
  Groups groups_;
  std::filesystem::path directory_, checkpoints_;
  std::optional<Lease> lease_;  // on the directory; held by rank 0 only
  RunData data_;
  ModelSection section_;
  PipelinePlan pipeline_;
  Prediction prediction_;
  std::optional<Arena> arena_, host_arena_;
  std::optional<Model> model_;
  std::optional<Executor> executor_;
  std::optional<Saver> saver_;
  std::optional<Recorder> recorder_;
  Progression at_;
  StateSums state_sums_;  // of the state after the last update, if replicas are compared after it
  int64_t saved_step_ = -1, resumed_step_ = -2, evaluated_step_ = -1;
  struct SetupEvent {
    std::string text;
    log::Level level = log::Level::warning;
  };
  std::vector<SetupEvent> setup_events_;  // of set-up, before there is a recorder
  std::optional<MemoryWatch> memory_;
  double gemm_rate_ = 0, flops_per_token_ = 0;
  std::vector<double> step_ms_;  // of the first 1000 steps of this start
  int64_t sent_again_ = 0;       // bytes, when the last step was computed again (train.check_repeats)
  int64_t sent_ = 0;             // bytes, in the last step without that
  Clock::time_point started_ = Clock::now();
  double elapsed_before_ = 0;
  std::optional<SlurmJob> job_;  // set on rank 0 only, like job_clock_
  std::optional<JobClock> job_clock_;
  std::optional<ShutdownTime> shutdown_time_;
  std::vector<Batch> batches_;
  std::map<std::string, std::string> carried_;  // files of an imported model, kept for its export
  // Last, so that its thread ends before the members that it reads are destroyed.
  std::optional<BatchPrefetch> prefetch_;
};

}  // namespace fp
