#include "data/prepare/progress.h"

#include "base/log.h"

namespace fp {

TaskProgress::TaskProgress(std::string what) : what_(std::move(what)), begin_(Clock::now()), last_(begin_) {}

TaskProgress::~TaskProgress() { log::set_live_line(""); }

void TaskProgress::update(uint64_t done, uint64_t total, const char* unit, double unit_size) {
  const bool live = log::stderr_is_terminal();
  const auto now = Clock::now();
  if (now - last_ < (live ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000))) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = static_cast<double>(done) / seconds;
  const double left = rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0.0;
  const std::string line =
      fmt::format("{}: {:.0f}%, {:.1f} {}/s, {:.0f} s left", what_,
                  100.0 * static_cast<double>(done) / static_cast<double>(total), rate / unit_size, unit, left);
  if (live)
    log::set_live_line(line);
  else
    log::info("{}", line);
}

}  // namespace fp
