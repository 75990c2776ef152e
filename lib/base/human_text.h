// Formats numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Three significant digits with a thousands suffix: 950, 12.3k, 1.24M, 70.6B.
std::string human_count(double value);
// Three significant digits in plain notation: 0.0432, 13.6, 308,000.
std::string three_digits(double value);
// All digits, in groups: 1,234,567.
std::string grouped(int64_t value);
// Powers of 1024: 512 B, 3.42 GiB.
std::string human_bytes(double bytes);
// 4.2 s, 3m 05s, 2h 07m, 3d 04h; "?" when not finite or negative.
std::string human_duration(double seconds);
// UTC, 2025-01-31 14:05:09; `unix_seconds` since 1970; "?" outside the years 1970 to 9999.
std::string utc_time(double unix_seconds);
// Returns each item on an indented line of its own, with a line break before each: the first five, then "and 180 more".
std::string indented_lines(const std::vector<std::string>& items);

}  // namespace fp
