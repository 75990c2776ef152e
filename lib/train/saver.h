// Saves checkpoints that all ranks of a run write together: synchronously, or in the background during training.
//
// At most one save is in progress. In the background, each rank copies the state it owns into its staging area. A
// thread of rank 0 creates the checkpoint's hidden folder, a thread of each rank writes its file there from the staging
// area, and when all ranks have written theirs, a thread of rank 0 makes the checkpoint visible. The ranks synchronise
// these phases at the end of steps. A save that fails, or that is killed at any moment, leaves the earlier checkpoints
// as they were.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/node_local.h"
#include "checkpoint/staging.h"
#include "comm/comm.h"
#include "config/run_spec.h"
#include "train/rank_result.h"

namespace fp {

// Work in a thread of its own.
class BackgroundTask {
 public:
  explicit BackgroundTask(std::function<std::string()> work);
  ~BackgroundTask() { thread_.join(); }
  bool done() const { return done_; }
  // Waits for the end of the work, reporting its progress meanwhile.
  const RankResult& result();
  // Reports progress of the work since the last call, if any, to the process's watchdog.
  void pass_on_progress();
  // Returns the seconds since a call of this function last saw progress; 0 when the work is done.
  double stuck_s();

 private:
  std::atomic<bool> done_ = false;
  std::atomic<int64_t> progress_ = 0;
  int64_t passed_on_ = 0, seen_ = -1;
  std::chrono::steady_clock::time_point seen_at_;
  RankResult result_;
  std::thread thread_;
};

class Saver {
 public:
  // Result of a save.
  struct Saved {
    int64_t step = 0;
    std::filesystem::path path;
    std::string error;     // why it was not saved; empty on success
    ExitCode code{};       // of the run, if this error ends it
    uint64_t bytes = 0;    // of all rank files
    double seconds = 0;    // to write, on the slowest rank, and to make it visible
    double stalled_s = 0;  // seconds that training waited
    bool in_background = false;
    bool overran = false;  // the next save was due before this one was done
  };

  // Keeps references to all arguments but the spec. `checkpoints_dir` must exist. Called on every rank.
  Saver(const std::filesystem::path& checkpoints_dir, const RunSpec&, const ParamStore&, Ops&, Group& world,
        const SaveOptions&);
  ~Saver();        // cancels a save in progress, and waits for its end
  void give_up();  // cancels a background save that is still being copied and written

  // The following functions must be called on every rank.
  //
  // Begins a save, after finishing one that is in progress; when saves are not in the background, finishes it too.
  // Rank 0 needs the complete state, the others only the step. Waits until the checkpoint's folder exists. If that
  // shows no progress for `hangs_s` seconds, and the staging areas hold all state, the save continues beside training.
  void begin(TrainState, double hangs_s);
  void save_now(TrainState);  // the same, but finishes the save in any case
  void finish();              // waits for a save in progress
  // Call advance() at the end of every step. `any_busy`: whether busy() is true on any rank, that is whether it still
  // works on its part of the save in progress.
  bool busy() const { return task_ && !task_->done(); }
  bool under_way() const { return phase_ != Phase::none; }  // the same on all ranks
  void advance(bool any_busy);
  // Waits for a save in progress; call it before begin(), which otherwise might wait forever. Returns false when the
  // save has shown no progress on some rank for more than `hangs_s` seconds.
  bool ready_for_next(double hangs_s);
  // Returns for how many seconds the calls of this function have seen no progress of this rank's part of the save in
  // progress; 0 when no part is left. Local to the rank.
  double stuck_s() { return task_ ? task_->stuck_s() : 0; }
  // Returns the results of the saves that ended since the last call.
  std::vector<Saved> take_outcomes() { return std::exchange(outcomes_, {}); }

  double stalled_s() const { return stalled_s_; }   // seconds that training waited, in the whole run
  int saves() const { return saves_; }              // successful ones
  double longest_save() const { return longest_; }  // seconds

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase : uint8_t { none, opening, writing, publishing };
  class StallTimer;

  void open(TrainState, bool in_background);
  void work_on(std::function<std::string()> work);
  bool wait_while(const std::function<bool()>& wanted, double hangs_s);
  void start_writing();
  std::string write(BlockSource&);
  void next_phase();
  std::string abandon() const;
  void publish(const std::vector<std::string>& records);
  std::string made_visible(const std::vector<std::string>& records) const;
  void close(const std::string& error, ExitCode code = ExitCode::ok);

  std::filesystem::path checkpoints_;
  std::optional<NodeLocal> local_;
  Retention retention_;
  bool background_;
  const ParamStore& store_;
  Ops& ops_;
  Group& world_;
  SaveOptions options_;
  std::optional<Staging> staging_;
  bool stages_all_ = false;  // on every rank
  // The save in progress.
  Phase phase_ = Phase::none;
  std::filesystem::path hidden_;
  TrainState state_;
  Saved now_;
  std::unique_ptr<BackgroundTask> task_;  // in the background
  RankResult result_;                     // otherwise
  uint64_t file_bytes_ = 0;               // size of this rank's file, once its task has ended
  std::vector<Saved> outcomes_;
  double stalled_s_ = 0, longest_ = 0;
  int saves_ = 0;
};

// Returns "1.2 GiB in 3.4 s in the background; training waited 0.02 s".
std::string describe(const Saver::Saved&);

}  // namespace fp
