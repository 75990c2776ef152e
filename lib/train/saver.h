// The checkpoints of a run that all its ranks write together: at once, or in the background while training goes on.
//
// One save is under way at a time. Each rank copies what it answers for into its staging area, a thread of its own
// writes the file from there, and when all have, a thread of rank 0 makes the checkpoint visible. The ranks agree on
// where they are at the end of steps. A save that fails, or that is cut off at any moment, leaves the earlier
// checkpoints as they were.
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
#include "checkpoint/staging.h"
#include "comm/comm.h"
#include "config/run_spec.h"

namespace fp {

// Whether a run saves in the background, and the bytes of memory that this takes on a rank.
bool saves_in_background(const RunSpec&);
size_t staging_bytes(const RunSpec&, const ParamTable&);

// Work beside that of the calling thread.
class BackgroundTask {
 public:
  explicit BackgroundTask(std::function<std::string()> work);  // its outcome_of() is kept
  ~BackgroundTask() { thread_.join(); }
  bool done() const { return done_; }
  // Waits, and passes on that the work goes on.
  const std::string& outcome();
  // To who watches over this process, if there was any progress.
  void pass_on_progress();
  // Seconds since a call of this saw progress last; 0: the work is done.
  double stuck_s();

 private:
  std::atomic<bool> done_ = false;
  std::atomic<int64_t> progress_ = 0;
  int64_t passed_on_ = 0, seen_ = -1;
  std::chrono::steady_clock::time_point seen_at_;
  std::string outcome_;
  std::thread thread_;
};

class Saver {
 public:
  // How a save came out.
  struct Saved {
    int64_t step = 0;
    std::filesystem::path path;
    std::string error;       // not empty: not saved, and why
    ExitCode code{};         // of that error, if it ends the run
    uint64_t bytes = 0;      // in the files of all ranks
    double seconds = 0;      // of writing, on the slowest rank, and of making it visible
    double stood_still = 0;  // seconds that training waited
    bool in_background = false;
    bool held_up = false;  // the next save was due before it was done
  };

  // Keeps references but of the spec. `checkpoints_dir` exists.
  Saver(const std::filesystem::path& checkpoints_dir, const RunSpec&, const ParamStore&, Ops&, Group& world,
        const SaveOptions&);
  ~Saver();  // gives up what is under way, and waits for its end
  void give_up();

  // All of these on every rank alike.
  //
  // Begins a save and, where it is not to go on in the background, finishes it; first what is under way.
  void begin(TrainState);  // of which rank 0 needs all, the others the step
  void save_now(TrainState);
  void finish();  // what is under way
  // At the end of every step. `busy` says whether this rank has something left to do of the save under way; `any_busy`
  // is the same of all.
  bool busy() const { return task_ && !task_->done(); }
  bool under_way() const { return stage_ != Stage::none; }  // on all ranks alike
  void advance(bool any_busy);
  // Before begin(), which so does not wait for ever: waits for the save under way. False when on some rank it has shown
  // no progress for longer than so many seconds.
  bool ready_for_next(double hangs_s);
  // How long this rank has seen no progress of its part of the save under way, in looks of this; 0: no part is left.
  double stuck_s() { return task_ ? task_->stuck_s() : 0; }
  // How the saves since the last call came out.
  std::vector<Saved> take_outcomes() { return std::exchange(outcomes_, {}); }

  double stood_still() const { return stood_still_; }  // seconds, of the whole run
  int saves() const { return saves_; }                 // that succeeded
  double longest_save() const { return longest_; }     // seconds

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage : uint8_t { none, writing, publishing };
  class StandingStill;

  bool open(TrainState, bool in_background);
  void work_on(std::function<std::string()> work);
  std::string write(BlockSource&) const;
  void clear_local() const;
  void next_stage();
  std::string abandon() const;
  void publish(const std::vector<std::string>& outcomes);
  std::string made_visible(const std::vector<std::string>& records) const;
  void close(const std::string& error, ExitCode code = ExitCode::ok);

  std::filesystem::path checkpoints_, local_;
  Retention retention_;
  bool background_;
  const ParamStore& store_;
  Ops& ops_;
  Group& world_;
  SaveOptions options_;
  std::optional<Staging> staging_;
  // The save under way.
  Stage stage_ = Stage::none;
  std::filesystem::path hidden_;
  TrainState state_;
  Saved now_;
  std::unique_ptr<BackgroundTask> task_;  // in the background
  std::string outcome_;                   // otherwise
  std::vector<Saved> outcomes_;
  double stood_still_ = 0, longest_ = 0;
  int saves_ = 0;
};

// "1.2 GiB in 3.4 s beside training, which stood still for 0.02 s".
std::string describe(const Saver::Saved&);

}  // namespace fp
