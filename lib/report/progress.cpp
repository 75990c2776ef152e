#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/human_text.h"
#include "base/log.h"

namespace fp {
namespace {

// Steps. Long enough to average over evaluations and saves, short enough to follow a change of speed.
constexpr size_t kEtaWindow = 256;

// Every glyph used here is one column wide, so columns are counted as code points outside escape sequences.
int columns_of(std::string_view text) {
  int columns = 0;
  bool escape = false;
  for (const char c : text) {
    if (c == '\x1b') escape = true;
    if (!escape && (static_cast<uint8_t>(c) & 0xC0u) != 0x80u) ++columns;
    if (escape && c == 'm') escape = false;
  }
  return columns;
}

std::string repeat(std::string_view glyph, int64_t times) {
  std::string text;
  for (int64_t i = 0; i < times; ++i) text += glyph;
  return text;
}

std::string bar(double fraction, int width, const TerminalStyle& style) {
  const int64_t done = std::clamp<int64_t>(std::llround(fraction * width), 0, width);
  if (!style.unicode) return "[" + repeat("#", done) + repeat("-", width - done) + "]";
  const std::string_view on = style.colour ? "\x1b[36m" : "", dim = style.colour ? "\x1b[90m" : "",
                         off = style.colour ? "\x1b[0m" : "";
  return fmt::format("{}{}{}{}{}", on, repeat("━", done), dim, repeat(style.colour ? "━" : "─", width - done), off);
}

// A part of the live line. On a narrow terminal the part with the highest `drop` is left out first; 0 is always kept.
struct Part {
  int drop;
  std::string text;
};

std::vector<Part> parts_of(const ProgressState& s, const TerminalStyle& style) {
  const StepMetrics& m = s.now;
  const double fraction = s.total_steps > 0 ? static_cast<double>(m.step) / static_cast<double>(s.total_steps) : 0;
  std::vector<Part> parts;
  parts.push_back({5, bar(fraction, style.columns >= 120 ? 24 : style.columns >= 100 ? 12 : 6, style)});
  parts.push_back({6, fmt::format("{:3.0f}%", std::floor(fraction * 100))});
  parts.push_back({0, fmt::format("step {}/{}", m.step, s.total_steps)});
  parts.push_back({0, fmt::format("loss {:.4f}", m.loss)});
  if (m.accuracy) parts.push_back({3, fmt::format("acc {:.0f}%", 100 * *m.accuracy)});
  if (s.val_bits_per_byte) {
    parts.push_back({3, fmt::format("bpb {:.4f}", *s.val_bits_per_byte)});
  } else if (s.val_loss) {
    parts.push_back({3, fmt::format("val {:.4f}", *s.val_loss)});
  }
  parts.push_back({2, fmt::format("{} tok/s", human_count(m.tokens_per_s))});
  if (std::isfinite(m.mfu)) parts.push_back({4, fmt::format("MFU {:.1f}%", 100 * m.mfu)});
  parts.push_back({1, fmt::format("ETA {}", human_duration(s.eta_s))});
  return parts;
}

bool has_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale(value);
    for (const std::string_view suffix : {"UTF-8", "utf-8", "UTF8", "utf8"})
      if (locale.find(suffix) != std::string_view::npos) return true;
    return false;
  }
  return false;
}

}  // namespace

TerminalStyle terminal_style() {
  TerminalStyle style;
  struct winsize size {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  style.unicode = has_utf8_locale() && !dumb;
  style.colour = std::getenv("NO_COLOR") == nullptr && !dumb;
  return style;
}

std::string live_line(const ProgressState& state, const TerminalStyle& style) {
  std::vector<Part> parts = parts_of(state, style);
  for (;;) {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    // The last column stays empty: many terminals wrap after writing to it.
    if (columns_of(line) < style.columns) return line;
    const auto least =
        std::max_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.drop < b.drop; });
    if (least->drop == 0) return line.substr(0, static_cast<size_t>(std::max(style.columns - 1, 0)));
    parts.erase(least);
  }
}

namespace {

// Returns "books 2.2131, chat 1.9702".
std::string losses_of_datasets(const StepMetrics& m) {
  std::string text;
  for (const auto& [label, loss] : m.val_loss_of)
    text += fmt::format("{}{} {:.5g}", text.empty() ? "" : ", ", label, loss);
  return text;
}

}  // namespace

std::string plain_line(const ProgressState& s) {
  const StepMetrics& m = s.now;
  std::string line =
      fmt::format("step {}/{} | loss {:.5g} | lr {:.3e} | grad norm {:.4g} | {} tok/s | {:.1f} ms/step", m.step,
                  s.total_steps, m.loss, m.lr, m.grad_norm, human_count(m.tokens_per_s), m.step_ms);
  if (std::isfinite(m.mfu)) line += fmt::format(" | MFU {:.1f}%", 100 * m.mfu);
  if (m.accuracy) line += fmt::format(" | accuracy {:.1f}%", 100 * *m.accuracy);
  if (m.margin) line += fmt::format(" | margin {:.4g}", *m.margin);
  if (m.val_loss) line += fmt::format(" | val loss {:.5g}", *m.val_loss);
  if (!m.val_loss_of.empty()) line += fmt::format(" ({})", losses_of_datasets(m));
  if (m.val_perplexity) line += fmt::format(" | val ppl {:.4g}", *m.val_perplexity);
  if (m.val_bits_per_byte) line += fmt::format(" | val {:.4f} bits/byte", *m.val_bits_per_byte);
  if (m.val_accuracy) line += fmt::format(" | val accuracy {:.1f}%", 100 * *m.val_accuracy);
  if (m.val_margin) line += fmt::format(" | val margin {:.4g}", *m.val_margin);
  if (m.skipped) line += " | update skipped";
  return line + fmt::format(" | ETA {}", human_duration(s.eta_s));
}

Progress::Progress(const ProgressOptions& options) : options_(options) { state_.total_steps = options.total_steps; }

Progress::~Progress() { clear(); }

void Progress::clear() {
  log::set_live_line("");
  drawn_.reset();
}

// The ETA is the remaining steps times the mean time of recent steps, pauses included, limited by the time limit.
void Progress::estimate() {
  window_.emplace_back(state_.now.step, state_.now.elapsed_s);
  if (window_.size() > kEtaWindow) window_.pop_front();
  const auto& [first_step, first_s] = window_.front();
  double pace_s = state_.now.step_ms / 1000;
  if (state_.now.step > first_step)
    pace_s = (state_.now.elapsed_s - first_s) / static_cast<double>(state_.now.step - first_step);
  state_.eta_s = static_cast<double>(std::max<int64_t>(options_.total_steps - state_.now.step, 0)) * pace_s;
  if (options_.stop_at_elapsed_s)
    state_.eta_s = std::min(state_.eta_s, std::max(0.0, *options_.stop_at_elapsed_s - state_.now.elapsed_s));
}

void Progress::step(const StepMetrics& metrics) {
  state_.now = metrics;
  if (metrics.val_loss) state_.val_loss = metrics.val_loss;
  if (metrics.val_bits_per_byte) state_.val_bits_per_byte = metrics.val_bits_per_byte;
  estimate();
  const bool last = metrics.step == options_.total_steps;
  const bool due = options_.console_every > 0 && (metrics.step % options_.console_every == 0 || last);
  if (due || metrics.val_loss || metrics.skipped) {
    if (log::stderr_is_terminal() && !metrics.val_loss && !metrics.skipped) {
      log::write_to_file(plain_line(state_));
    } else {
      log::info("{}", plain_line(state_));
    }
  }
  if (!log::stderr_is_terminal()) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && !last && now - *drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  log::set_live_line(live_line(state_, terminal_style()));
}

}  // namespace fp
