#include "base/human_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <ctime>
#include <span>

namespace fp {
namespace {

// Three significant digits; rounding that reaches the next unit (999.6k) moves on to it (1.00M).
std::string scaled(double value, double base, std::span<const char* const> units) {
  if (!std::isfinite(value)) return "?";
  size_t unit = 0;
  while (std::abs(value) >= (unit == 0 ? base : base - 0.5) && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  const double size = std::abs(value);
  const int decimals = unit == 0 && value == std::floor(value) ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, units[unit]);
}

}  // namespace

std::string human_count(double value) {
  static constexpr std::array<const char*, 5> units{"", "k", "M", "B", "T"};
  return scaled(value, 1000, units);
}

std::string human_bytes(double bytes) {
  static constexpr std::array<const char*, 6> units{" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return scaled(bytes, 1024, units);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e10) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const int64_t s = std::llround(seconds);
  if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h {:02}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d {:02}h", s / 86400, s % 86400 / 3600);
}

std::string utc_time(double unix_seconds) {
  constexpr double kYear10000 = 253402300800;
  if (!(unix_seconds >= 0 && unix_seconds < kYear10000)) return "?";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string three_digits(double value) {
  constexpr int kDigits = 3;
  if (!std::isfinite(value)) return "?";
  if (value == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (exponent < kDigits - 1) return fmt::format("{:.{}f}", value, kDigits - 1 - exponent);
  const double unit = std::pow(10.0, exponent - kDigits + 1);
  return grouped(static_cast<int64_t>(std::round(value / unit) * unit));
}

std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string indented_lines(const std::vector<std::string>& items) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < items.size() && i < kShown; ++i) text += "\n  " + items[i];
  return items.size() <= kShown ? text : text + fmt::format("\n  ... and {} more", items.size() - kShown);
}

}  // namespace fp
