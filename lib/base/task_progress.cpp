#include "base/task_progress.h"

#include <algorithm>

#include "base/human_text.h"
#include "base/log.h"

namespace fp {

std::string progress_line(const std::string& what, uint64_t done, uint64_t total, const char* unit, double unit_size,
                          double elapsed_s) {
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  const double left = rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0.0;
  return fmt::format("{}: {:.0f}%, {:.1f} {}/s, {} left", what,
                     100.0 * static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1)),
                     rate / unit_size, unit, human_duration(left));
}

TaskProgress::TaskProgress(std::string what) : what_(std::move(what)), begin_(Clock::now()), last_(begin_) {}

TaskProgress::~TaskProgress() { log::set_live_line(""); }

void TaskProgress::update(uint64_t done, uint64_t total, const char* unit, double unit_size) {
  const bool live = log::stderr_is_terminal();
  const auto now = Clock::now();
  if (now - last_ < (live ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000))) return;
  last_ = now;
  const std::string line =
      progress_line(what_, done, total, unit, unit_size, std::chrono::duration<double>(now - begin_).count());
  if (live)
    log::set_live_line(line);
  else
    log::info("{}", line);
}

}  // namespace fp
