#include "train/recorder.h"

#include "base/error.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "report/report_html.h"

namespace fp {
namespace {

ProgressOptions progress_options(const RunSpec& spec, double elapsed_before) {
  ProgressOptions o{spec.train.steps, spec.logging.console_every, std::nullopt};
  if (spec.train.max_minutes > 0) o.stop_at_elapsed_s = elapsed_before + spec.train.max_minutes * 60.0;
  return o;
}

}  // namespace

Recorder::Recorder(const RunSpec& spec, const std::filesystem::path& directory, int64_t resume_step, RunFacts facts)
    : directory_(directory),
      logging_(spec.logging),
      facts_(std::move(facts)),
      metrics_(directory / "metrics.jsonl", resume_step),
      progress_(progress_options(spec, metrics_.last() ? metrics_.last()->elapsed_s : 0.0)) {
  if (logging_.tensorboard) events_ = std::make_unique<EventWriter>(directory, resume_step);
  // A resumed run keeps the events of its earlier lives.
  if (resume_step > 0 && std::filesystem::exists(directory / "report.json")) {
    const RunFacts before = load_run_facts(directory);
    facts_.started = before.started;
    for (const RunEvent& e : before.events)
      if (e.step <= resume_step) facts_.events.push_back(e);
  }
}

void Recorder::step(const StepMetrics& m) {
  const bool evaluated = m.val_loss.has_value();
  if (m.step % logging_.every == 0 || evaluated || m.skipped || m.step == facts_.total_steps) {
    attempt("metrics", m.step, [&] { metrics_.append(m); });
    if (events_) attempt("events", m.step, [&] { events_->append(m); });
  }
  progress_.step(m);
}

// What goes wrong is said once, until it works again.
void Recorder::attempt(const std::string& what, int64_t step, const std::function<void()>& write) {
  try {
    write();
    failing_.erase(what);
  } catch (const DataError& e) {
    if (failing_.insert(what).second) event(step, fmt::format("{}; training goes on", e.what()), log::Level::error);
  }
}

void Recorder::event(int64_t step, const std::string& text, log::Level level) {
  const double now = unix_seconds();
  facts_.events.push_back({step, now, text});
  log::write(level, text);
}

void Recorder::sample(int64_t step, const std::string& prompt, const std::string& text) {
  facts_.sample_step = step;
  facts_.sample_prompt = prompt;
  facts_.sample_text = text;
}

void Recorder::report(const std::string& status) {
  facts_.status = status;
  attempt("report", metrics_.last() ? metrics_.last()->step : 0, [&] {
    save_run_facts(directory_, facts_);
    if (logging_.report) write_report(directory_);
  });
}

}  // namespace fp
