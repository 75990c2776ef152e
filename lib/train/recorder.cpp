#include "train/recorder.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/stopwatch.h"
#include "report/report_html.h"
#include "report/tensorboard.h"

namespace fp {
namespace {

constexpr double kHangs = 30;  // seconds after which a write counts as hanging

ProgressOptions progress_options(const RunSpec& spec, double elapsed_before) {
  ProgressOptions o{spec.train.steps, spec.logging.console_every, std::nullopt};
  if (spec.train.max_minutes > 0) o.stop_at_elapsed_s = elapsed_before + spec.train.max_minutes * 60.0;
  return o;
}

// Returns the text of the last error in a log, of rank 0 if it logged any; empty if there is none, or no log. Reads the
// end of the file only.
std::string last_error_in(const std::filesystem::path& log) {
  constexpr std::streamoff kEnd = 64 << 10;
  constexpr std::string_view kMark = "error: ";
  if (std::error_code unknown; std::filesystem::is_symlink(log, unknown)) return "";
  std::ifstream in(log, std::ios::binary);
  in.seekg(0, std::ios::end);
  in.seekg(std::max<std::streamoff>(0, in.tellg() - kEnd));
  std::string line, of_rank_0, of_any;
  while (std::getline(in, line)) {
    const size_t space = line.find(' '), mark = line.find(kMark);
    if (space == std::string::npos || mark == std::string::npos) continue;
    const std::string who = line.substr(space + 1, mark - space - 1), text = line.substr(mark + kMark.size());
    if (who.empty() || who == "[rank 0] ") of_rank_0 = text;
    if (who.empty() || who.starts_with("[rank ")) of_any = text;
  }
  return of_rank_0.empty() ? of_any : of_rank_0;
}

}  // namespace

// The files, which only the queue's thread uses once it runs, and their errors.
class RunFiles {
 public:
  RunFiles(const std::filesystem::path& directory, const LoggingSection& logging, int64_t resume_step)
      : directory_(directory), metrics_(directory / "metrics.jsonl", resume_step) {
    if (logging.tensorboard) events_.emplace(directory, resume_step);
  }

  const MetricsWriter& metrics() const { return metrics_; }
  void write_metrics(const StepMetrics& m) { metrics_.append(m); }
  void write_events(const StepMetrics& m) {
    if (events_) events_->append(m);
  }
  void write_report(bool page) {
    std::optional<RunFacts> facts;
    {
      const std::lock_guard lock(mutex_);
      facts = std::exchange(next_facts_, std::nullopt);
    }
    if (!facts) return;
    save_run_facts(directory_, *facts);
    if (page) fp::write_report(directory_);
  }
  // Returns true when no report was waiting.
  bool set_facts(const RunFacts& facts) {
    const std::lock_guard lock(mutex_);
    return !std::exchange(next_facts_, facts).has_value();
  }
  void forget_facts() {
    const std::lock_guard lock(mutex_);
    next_facts_.reset();
  }

  // Keeps an error to be reported once, until the same kind of write succeeds again.
  void attempt(const std::string& what, const std::function<void(RunFiles&)>& write) {
    std::string error;
    try {
      write(*this);
      failing_.erase(what);
      return;
    } catch (const DataError& e) {
      error = e.what();
    } catch (const std::exception& e) {
      error = fmt::format("{}: {}", what, e.what());
    }
    if (!failing_.insert(what).second) return;
    const std::lock_guard lock(mutex_);
    failures_.push_back(error + "; training continues");
  }
  std::vector<std::string> take_failures() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failures_, {});
  }

 private:
  std::filesystem::path directory_;
  MetricsWriter metrics_;
  std::optional<EventWriter> events_;
  std::set<std::string> failing_;
  std::mutex mutex_;
  std::optional<RunFacts> next_facts_;
  std::vector<std::string> failures_;
};

Recorder::Recorder(const RunSpec& spec, const std::filesystem::path& directory, int64_t resume_step, RunFacts facts,
                   size_t most_waiting)
    : directory_(directory),
      logging_(spec.logging),
      facts_(std::move(facts)),
      files_(std::make_shared<RunFiles>(directory, logging_, resume_step)),
      queue_(most_waiting) {
  const MetricsWriter& metrics = files_->metrics();
  next_before_ = metrics.next_before();
  if (metrics.last()) step_ = metrics.last()->step;
  progress_.emplace(progress_options(spec, metrics.last() ? metrics.last()->elapsed_s : 0.0));
  if (resume_step > 0 && std::filesystem::exists(directory / "report.json")) resume_facts(resume_step);
  if (!metrics.repair().empty()) event(resume_step, metrics.repair(), log::Level::warning);
}

Recorder::~Recorder() = default;

// A resumed run keeps the events of its earlier starts.
void Recorder::resume_facts(int64_t resume_step) {
  std::string broken;
  const RunFacts before = load_facts_or_set_aside(directory_, broken);
  if (before.started > 0) facts_.started = before.started;
  for (const RunEvent& e : before.events)
    if (e.step <= resume_step) facts_.events.push_back(e);
  if (before.sample_step <= resume_step) {
    facts_.sample_step = before.sample_step;
    facts_.sample_prompt = before.sample_prompt;
    facts_.sample_text = before.sample_text;
  }
  if (!broken.empty()) event(resume_step, broken, log::Level::warning);
  if (before.status == "failed" && !before.events.empty() && before.events.back().step > resume_step)
    note(resume_step, fmt::format("the start before this one ended after step {} with: {}", before.events.back().step,
                                  before.events.back().text));
  if (before.status != "running") return;
  std::string error = last_error_in(directory_ / "log.txt");
  const auto is_known = [&](const RunEvent& e) { return e.text == error; };
  if (std::ranges::any_of(before.events, is_known)) error.clear();
  note(resume_step, error.empty() ? "the start before this one left no message: it was killed, or its machine failed"
                                  : "the start before this one ended with: " + error);
}

bool Recorder::post(const std::string& what, std::function<void(RunFiles&)> write) {
  return queue_.post([files = files_, what, write = std::move(write)] { files->attempt(what, write); });
}

void Recorder::step(const StepMetrics& m) {
  log_failures();
  watch_disk();
  step_ = m.step;
  const bool evaluated = m.val_loss.has_value();
  if (m.step % logging_.every == 0 || evaluated || m.skipped || m.step == facts_.total_steps) {
    const bool taken = queue_.post([files = files_, m] {
      files->attempt("metrics", [&](RunFiles& f) { f.write_metrics(m); });
      files->attempt("events", [&](RunFiles& f) { f.write_events(m); });
    });
    if (!taken && dropped_++ == 0) first_dropped_ = m.step;
    if (taken && dropped_ > 0)
      event(m.step,
            fmt::format("{} lines from step {} on are missing in metrics.jsonl: the disk did not respond for too long",
                        std::exchange(dropped_, 0), first_dropped_),
            log::Level::error);
  }
  progress_->step(m);
}

void Recorder::watch_disk() {
  const bool hangs = queue_.busy_s() > kHangs;
  if (hangs && !disk_hangs_)
    event(step_,
          fmt::format("{}: the disk has been writing the same file for {:g} s; training continues, and its records "
                      "wait in memory",
                      directory_.string(), kHangs),
          log::Level::warning);
  disk_hangs_ = hangs;
}

void Recorder::log_failures() {
  for (const std::string& failure : files_->take_failures()) event(step_, failure, log::Level::error);
}

void Recorder::event(int64_t step, const std::string& text, log::Level level) {
  note(step, text);
  log::write(level, text);
}

void Recorder::note(int64_t step, const std::string& text) { facts_.events.push_back({step, unix_seconds(), text}); }

void Recorder::sample(int64_t step, const std::string& prompt, const std::string& text) {
  facts_.sample_step = step;
  facts_.sample_prompt = prompt;
  facts_.sample_text = text;
}

void Recorder::report(const std::string& status) {
  log_failures();
  facts_.status = status;
  if (!files_->set_facts(facts_)) return;
  if (!post("report", [page = logging_.report](RunFiles& f) { f.write_report(page); })) files_->forget_facts();
}

void Recorder::write_beside(const std::string& what, std::function<void()> write) {
  if (!post(what, [write = std::move(write)](RunFiles&) { write(); }))
    event(step_, fmt::format("{} is not written: the disk does not respond", what), log::Level::error);
}

bool Recorder::flush(double seconds) {
  const bool done = queue_.flush(seconds);
  log_failures();
  return done;
}

void Recorder::finish(double seconds) {
  if (!flush(seconds))
    log::error("{}: the last metrics and the report are not written: the disk has not answered for {:g} s",
               directory_.string(), seconds);
}

}  // namespace fp
