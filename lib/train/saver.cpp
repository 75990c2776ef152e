#include "train/saver.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/memory_error.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/stopwatch.h"
#include "checkpoint/rank_file.h"
#include "dryrun/setup.h"
#include "io/filesystem.h"
#include "train/coordination.h"

namespace fp {
namespace {

// Converts errors so that a temporary failure only fails the save. Losing the run's lease still ends the run.
std::string without_infrastructure(const std::function<std::string()>& work) {
  try {
    return work();
  } catch (const LeaseLost&) {
    throw;
  } catch (const InfrastructureError& e) {
    throw DataError(e.what(), e.code());
  }
}

bool costs_only_a_save(const UserError& e) {
  return dynamic_cast<const DataError*>(&e) != nullptr || e.code() == ExitCode::bad_config;
}

}  // namespace

BackgroundTask::BackgroundTask(std::function<std::string()> work)
    : thread_([this, work = std::move(work)] {
        count_progress(&progress_);
        set_threads(1);  // leave the cores to training
        try {
          result_ = run_and_catch(work);
        } catch (const std::bad_alloc&) {
          result_ = {ExitCode::infrastructure, false, 0, out_of_memory("in a save")};
        } catch (const std::filesystem::filesystem_error& e) {
          result_ = {exit_code_of(e.code().value()), true, 0, message_of(e)};
        } catch (const std::exception& e) {  // training cannot continue after it
          result_ = {ExitCode::internal, false, 0,
                     fmt::format("internal error in a save, please report it: {}", e.what())};
        }
        done_ = true;
      }) {}

const RankResult& BackgroundTask::result() {
  for (; !done_; std::this_thread::sleep_for(std::chrono::milliseconds(5))) pass_on_progress();
  return result_;
}

void BackgroundTask::pass_on_progress() {
  if (progress_ != passed_on_) progress();
  passed_on_ = progress_;
}

double BackgroundTask::stuck_s() {
  pass_on_progress();
  if (std::exchange(seen_, progress_) != progress_) seen_at_ = std::chrono::steady_clock::now();
  return done_ ? 0 : seconds_since(seen_at_);
}

// Adds its lifetime to the time that training waits.
class Saver::StallTimer {
 public:
  explicit StallTimer(Saver& s) : saver_(s) {}
  ~StallTimer() {
    saver_.stalled_s_ += seconds_since(begin_);
    saver_.now_.stalled_s += seconds_since(begin_);
    if (saver_.phase_ == Phase::none && !saver_.outcomes_.empty())
      saver_.outcomes_.back().stalled_s = saver_.now_.stalled_s;
  }

 private:
  Saver& saver_;
  Clock::time_point begin_ = Clock::now();
};

Saver::Saver(const std::filesystem::path& checkpoints_dir, const RunSpec& spec, const ParamStore& store, Ops& ops,
             Group& world, const SaveOptions& options)
    : checkpoints_(checkpoints_dir),
      retention_{spec.checkpoint.keep_last, spec.checkpoint.keep_every},
      background_(saves_in_background(spec)),
      store_(store),
      ops_(ops),
      world_(world),
      options_(options) {
  if (!background_) return;
  const size_t bytes = staging_bytes(spec, store.table());
  staging_.emplace(bytes);
  double streams = bytes < Staging::bytes_for(store.table(), 0) ? 1 : 0;
  world.all_reduce(std::span(&streams, 1), Reduction::max);
  stages_all_ = streams == 0;
  if (spec.checkpoint.node_local.empty()) return;
  local_.emplace(spec.checkpoint.node_local, checkpoints_dir, world.rank(), world.size());
}

void Saver::give_up() {
  if (staging_) staging_->give_up();
}

Saver::~Saver() {
  give_up();
  task_.reset();
}

void Saver::begin(TrainState state, double hangs_s) {
  if (!background_) return save_now(std::move(state));
  if (phase_ != Phase::none) {
    now_.overran = true;
    finish();
  }
  const StallTimer timer(*this);
  staging_->begin();
  open(std::move(state), true);
  // A staging area that does not hold all state is emptied while it is filled, so the folder must exist by then.
  if (stages_all_)
    wait_while([&] { return phase_ == Phase::opening; }, hangs_s);
  else
    next_phase();
  if (phase_ == Phase::none) return;
  staging_->fill(store_, ops_, [this] {
    if (task_) task_->pass_on_progress();
  });
}

// Starts the phases of a save, each when all ranks have done the one before, while wanted(), which must be the same on
// all ranks. Returns false when some rank has seen no progress for more than `hangs_s` seconds.
bool Saver::wait_while(const std::function<bool()>& wanted, double hangs_s) {
  constexpr std::chrono::milliseconds kLongestPause{20};
  std::chrono::milliseconds pause{1};
  while (wanted()) {
    double state = stuck_s() > hangs_s ? 2 : busy() ? 1 : 0;
    world_.all_reduce(std::span(&state, 1), Reduction::max);
    if (state > 1) return false;
    if (state > 0) {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    } else {
      next_phase();
    }
  }
  return true;
}

bool Saver::ready_for_next(double hangs_s) {
  if (phase_ == Phase::none) return true;
  now_.overran = true;
  const StallTimer timer(*this);
  return wait_while([&] { return phase_ != Phase::none; }, hangs_s);
}

void Saver::save_now(TrainState state) {
  finish();
  const StallTimer timer(*this);
  open(std::move(state), false);
  while (phase_ != Phase::none) next_phase();
}

void Saver::finish() {
  if (phase_ == Phase::none) return;
  const StallTimer timer(*this);
  while (phase_ != Phase::none) next_phase();
}

void Saver::advance(bool any_busy) {
  if (phase_ == Phase::none || any_busy) return;
  const StallTimer timer(*this);
  next_phase();
}

void Saver::open(TrainState state, bool in_background) {
  now_ = {};
  now_.step = state.step;
  now_.in_background = in_background;
  state_ = std::move(state);
  hidden_.clear();
  result_ = {};
  phase_ = Phase::opening;
  if (world_.rank() != 0) return;
  work_on([this] {
    options_.require_owner();
    return begin_save(checkpoints_, now_.step).string();
  });
}

void Saver::work_on(std::function<std::string()> work) {
  const auto guarded = [work = std::move(work)] { return without_infrastructure(work); };
  if (now_.in_background)
    task_ = std::make_unique<BackgroundTask>(guarded);
  else
    result_ = run_and_catch(guarded);
}

void Saver::start_writing() {
  phase_ = Phase::writing;
  if (!now_.in_background) return work_on([this] { return write(*blocks_of(store_, ops_)); });
  work_on([this, blocks = std::shared_ptr(staging_->blocks())] {
    try {
      return write(*blocks);
    } catch (...) {
      staging_->give_up();
      throw;
    }
  });
}

// Writes this rank's file, through the node-local disk where there is one. Returns its record.
std::string Saver::write(BlockSource& blocks) {
  const bool by_node = local_ && now_.in_background;
  const RankFile f = by_node ? local_->write_rank_file(hidden_, store_.table(), blocks, options_.rank)
                             : write_rank_file(hidden_, store_.table(), blocks, options_.rank);
  file_bytes_ = f.file.bytes;
  return to_text(f);
}

void Saver::next_phase() {
  if (task_) result_ = task_->result();
  task_.reset();
  try {
    if (phase_ == Phase::opening) {
      hidden_ = result_of_rank(world_, 0, result_).text;
      start_writing();
    } else if (phase_ == Phase::writing) {
      throw_on_all_ranks(world_, result_);
      publish(world_.gather(result_.text));
    } else {
      const RankResult published = result_of_rank(world_, 0, result_);
      now_.path = published.text;
      now_.seconds += published.seconds;
      close("");
    }
  } catch (const CommError&) {
    throw;
  } catch (const UserError& e) {
    if (!costs_only_a_save(e)) throw;
    const std::string error = e.what();
    const ExitCode code = e.code();
    on_rank_0(world_, [&] { return abandon(); });  // all wait: what the others make of the failure may end rank 0
    close(error, code);
  }
}

// Called on rank 0 only.
std::string Saver::abandon() const {
  if (hidden_.empty()) return {};
  try {
    options_.require_owner();
    abandon_save(hidden_);
  } catch (const LeaseLost&) {
    throw;
  } catch (const UserError& e) {
    log::warning("{} is not removed: {}", hidden_.string(), e.what());
  }
  return {};
}

// `records` are those of all ranks on rank 0, which alone needs them.
void Saver::publish(const std::vector<std::string>& records) {
  uint64_t bytes = file_bytes_;
  world_.all_reduce(std::span(&bytes, 1));
  now_.bytes = bytes;
  now_.seconds = result_.seconds;
  world_.all_reduce(std::span(&now_.seconds, 1), Reduction::max);
  phase_ = Phase::publishing;
  result_ = {};
  if (world_.rank() == 0) work_on([this, records] { return made_visible(records); });
}

std::string Saver::made_visible(const std::vector<std::string>& records) const {
  std::vector<RankFile> files;
  for (const std::string& r : records) files.push_back(rank_file_from(r));
  const std::filesystem::path path = finish_save(hidden_, store_.table(), files, state_, options_);
  try {
    options_.require_owner();
    apply_retention(checkpoints_, retention_, state_.step, {state_.step});  // compared as it was written
  } catch (const LeaseLost&) {
    throw;
  } catch (const UserError& e) {
    log::warning("cannot delete checkpoints that need not be kept: {}", e.what());
  }
  return path.string();
}

void Saver::close(const std::string& error, ExitCode code) {
  phase_ = Phase::none;
  state_ = {};
  if (error.empty()) {
    ++saves_;
    longest_ = std::max(longest_, now_.seconds);
  } else {
    now_.code = code == ExitCode::infrastructure ? code : ExitCode::bad_data;
    now_.error = fmt::format("checkpoint of step {} not saved (earlier ones are intact): {}", now_.step, error);
  }
  outcomes_.push_back(now_);
}

std::string describe(const Saver::Saved& s) {
  std::string text = fmt::format("{:.3g} GiB in {:.2g} s", static_cast<double>(s.bytes) / (1 << 30), s.seconds);
  if (s.in_background) text += fmt::format(" in the background; training waited {:.2g} s", s.stalled_s);
  return text;
}

}  // namespace fp
