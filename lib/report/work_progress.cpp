#include "report/work_progress.h"

#include <algorithm>

#include "base/human_text.h"
#include "base/log.h"

namespace fp {
namespace {

constexpr double kWorthLogging = 30;  // seconds
constexpr auto kBetweenDrawings = std::chrono::milliseconds(100);

double left_s(int64_t done, int64_t total, double elapsed_s) {
  return elapsed_s * static_cast<double>(total - done) / static_cast<double>(std::max<int64_t>(done, 1));
}

}  // namespace

std::string work_line(const std::string& unit, int64_t done, int64_t total, double elapsed_s) {
  const auto percent = static_cast<int>(100 * done / std::max<int64_t>(total, 1));
  const std::string text = fmt::format("{} of {} {}, {} %", done, total, unit, percent);
  return done == 0 ? text : fmt::format("{}, {} left", text, human_duration(left_s(done, total, elapsed_s)));
}

WorkProgress::WorkProgress(std::string unit, int64_t total) : unit_(std::move(unit)), total_(total) {}

WorkProgress::~WorkProgress() { log::set_live_line(""); }

void WorkProgress::done(int64_t n) {
  const Clock::time_point now = Clock::now();
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  if (log::stderr_is_terminal()) {
    if (now - drawn_ < kBetweenDrawings) return;
    drawn_ = now;
    return log::set_live_line(work_line(unit_, n, total_, elapsed_s));
  }
  const int64_t tenths = 10 * n / std::max<int64_t>(total_, 1);
  if (tenths <= logged_tenths_ || tenths >= 10) return;
  logged_tenths_ = tenths;
  if (elapsed_s + left_s(n, total_, elapsed_s) > kWorthLogging) log::info("{}", work_line(unit_, n, total_, elapsed_s));
}

}  // namespace fp
