#include "train/saver.h"

#include <chrono>

#include "base/filesystem.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/stopwatch.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/read_back.h"
#include "checkpoint/storage.h"
#include "train/together.h"

namespace fp {
namespace {

using std::chrono::steady_clock;

// "SECONDS RESULT" of some work.
std::string timed(const std::function<std::string()>& work) {
  const auto begin = steady_clock::now();
  const std::string result = work();
  return fmt::format("{:.6f} {}", seconds_since(begin), result);
}

std::pair<double, std::string> timed_result(const std::string& outcome) {
  const std::string text = result_of(outcome);
  const size_t space = text.find(' ');
  return {std::stod(text), text.substr(space + 1)};
}

// What fails for a moment costs a save. Only who has lost the run's lease ends with the code of the infrastructure.
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

bool saves_in_background(const RunSpec& spec) {
  return spec.checkpoint.asynchronous && spec.checkpoint.every > 0 && spec.checkpoint.every < spec.train.steps;
}

size_t staging_bytes(const RunSpec& spec, const ParamTable& table) {
  if (!saves_in_background(spec)) return 0;
  return Staging::bytes_for(table, static_cast<size_t>(spec.checkpoint.staging_mib) << 20);
}

BackgroundTask::BackgroundTask(std::function<std::string()> work)
    : thread_([this, work = std::move(work)] {
        count_progress(&progress_);
        set_threads(1);  // the cores are training's
        try {
          outcome_ = outcome_of(work);
        } catch (const std::exception& e) {  // nothing that training could go on after
          outcome_ = fmt::format("{} internal error in a save, please report it: {}",
                                 static_cast<int>(ExitCode::internal), e.what());
        }
        done_ = true;
      }) {}

const std::string& BackgroundTask::outcome() {
  for (; !done_; std::this_thread::sleep_for(std::chrono::milliseconds(5))) pass_on_progress();
  return outcome_;
}

void BackgroundTask::pass_on_progress() {
  if (progress_ != passed_on_) progress();
  passed_on_ = progress_;
}

double BackgroundTask::stuck_s() {
  pass_on_progress();
  if (std::exchange(seen_, progress_) != progress_) seen_at_ = steady_clock::now();
  return done_ ? 0 : seconds_since(seen_at_);
}

// Time that training waits.
class Saver::StandingStill {
 public:
  explicit StandingStill(Saver& s) : saver_(s) {}
  ~StandingStill() {
    saver_.stood_still_ += seconds_since(begin_);
    saver_.now_.stood_still += seconds_since(begin_);
    if (saver_.stage_ == Stage::none && !saver_.outcomes_.empty())
      saver_.outcomes_.back().stood_still = saver_.now_.stood_still;
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
  staging_.emplace(staging_bytes(spec, store.table()));
  if (spec.checkpoint.node_local.empty()) return;
  if (std::error_code ignored; !std::filesystem::is_directory(spec.checkpoint.node_local, ignored))
    throw ConfigError(fmt::format("checkpoint.node_local = {}: there is no such folder", spec.checkpoint.node_local));
  const std::string run = std::filesystem::absolute(checkpoints_dir).string();
  local_ = std::filesystem::path(spec.checkpoint.node_local) /
           fmt::format("fptrain-{}-{:05d}", hash_bytes(run.data(), run.size()), world.rank());
  storage::make_folders(local_);
  clear_local();
}

void Saver::give_up() {
  if (staging_) staging_->give_up();
}

Saver::~Saver() {
  give_up();
  task_.reset();
  std::error_code ignored;
  if (!local_.empty()) std::filesystem::remove(local_, ignored);
}

void Saver::begin(TrainState state) {
  if (!background_) return save_now(std::move(state));
  if (stage_ != Stage::none) {
    now_.held_up = true;
    finish();
  }
  const StandingStill still(*this);
  if (!open(std::move(state), true)) return;
  staging_->begin();
  work_on([this, blocks = std::shared_ptr(staging_->blocks())] {
    try {
      return write(*blocks);
    } catch (...) {
      staging_->give_up();
      throw;
    }
  });
  staging_->fill(store_, ops_, [this] { task_->pass_on_progress(); });
}

bool Saver::ready_for_next(double hangs_s) {
  if (stage_ == Stage::none) return true;
  now_.held_up = true;
  const StandingStill still(*this);
  while (stage_ != Stage::none) {
    double state = stuck_s() > hangs_s ? 2 : busy() ? 1 : 0;
    world_.all_reduce(std::span(&state, 1), Reduction::max);
    if (state > 1) return false;
    if (state > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    else
      next_stage();
  }
  return true;
}

void Saver::save_now(TrainState state) {
  finish();
  const StandingStill still(*this);
  if (!open(std::move(state), false)) return;
  work_on([this] { return write(*blocks_of(store_, ops_)); });
  while (stage_ != Stage::none) next_stage();
}

void Saver::finish() {
  if (stage_ == Stage::none) return;
  const StandingStill still(*this);
  while (stage_ != Stage::none) next_stage();
}

void Saver::advance(bool any_busy) {
  if (stage_ == Stage::none || any_busy) return;
  const StandingStill still(*this);
  next_stage();
}

bool Saver::open(TrainState state, bool in_background) {
  now_ = {};
  now_.step = state.step;
  now_.in_background = in_background;
  state_ = std::move(state);
  try {
    hidden_ = on_rank_0(world_, [&] {
      return without_infrastructure([&] {
        options_.require_owner();
        return begin_save(checkpoints_, now_.step).string();
      });
    });
  } catch (const CommError&) {
    throw;
  } catch (const UserError& e) {
    if (!costs_only_a_save(e)) throw;
    close(e.what(), e.code());
    return false;
  }
  stage_ = Stage::writing;
  return true;
}

void Saver::work_on(std::function<std::string()> work) {
  const auto with_time = [work = std::move(work)] { return timed([&] { return without_infrastructure(work); }); };
  if (now_.in_background)
    task_ = std::make_unique<BackgroundTask>(with_time);
  else
    outcome_ = outcome_of(with_time);
}

// This rank's file, by way of the node's own disk where there is one; its size and record.
std::string Saver::write(BlockSource& blocks) const {
  const auto record = [](const RankFile& f) { return fmt::format("{} {}", f.file.bytes, to_text(f)); };
  if (local_.empty() || !now_.in_background)
    return record(write_rank_file(hidden_, store_.table(), blocks, options_.rank));
  clear_local();
  try {
    const RankFile f = write_rank_file(local_, store_.table(), blocks, options_.rank);
    storage::copy_file(local_ / f.file.name, hidden_ / f.file.name);
    require_same(hidden_ / f.file.name, f.file);
    clear_local();
    return record(f);
  } catch (...) {
    clear_local();
    throw;
  }
}

// What cannot be removed there shows when it is written again.
void Saver::clear_local() const {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(local_, ignored))
    std::filesystem::remove(file.path(), ignored);
}

void Saver::next_stage() {
  if (task_) outcome_ = task_->outcome();
  task_.reset();
  try {
    if (stage_ == Stage::writing) {
      fail_together(world_, outcome_);
      publish(world_.gather(outcome_));
    } else {
      const auto [seconds, path] = timed_result(world_.broadcast(outcome_, 0));
      now_.seconds += seconds;
      now_.path = path;
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

// Rank 0's part of it.
std::string Saver::abandon() const {
  try {
    options_.require_owner();
    abandon_save(hidden_);
  } catch (const LeaseLost&) {
    throw;
  } catch (const UserError& e) {
    log::warning("{} stays: {}", hidden_.string(), e.what());
  }
  return {};
}

// `outcomes` is rank 0's, which alone needs the records of all.
void Saver::publish(const std::vector<std::string>& outcomes) {
  std::vector<std::string> records;
  uint64_t bytes = std::stoull(timed_result(outcome_).second);
  world_.all_reduce(std::span(&bytes, 1));
  now_.bytes = bytes;
  now_.seconds = timed_result(outcome_).first;
  world_.all_reduce(std::span(&now_.seconds, 1), Reduction::max);
  for (const std::string& outcome : outcomes) {
    const std::string text = timed_result(outcome).second;
    records.push_back(text.substr(text.find(' ') + 1));
  }
  stage_ = Stage::publishing;
  outcome_.clear();
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
    log::warning("checkpoints that are kept no longer stay: {}", e.what());
  }
  return path.string();
}

void Saver::close(const std::string& error, ExitCode code) {
  stage_ = Stage::none;
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
  if (s.in_background) text += fmt::format(" beside training, which stood still for {:.2g} s", s.stood_still);
  return text;
}

}  // namespace fp
