// The log: lines to stderr and, once a run directory exists, to its log.txt. Only rank 0 talks unless something is
// wrong. When a live progress line is on the terminal, it is cleared before a line and redrawn after it.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace fp::log {

enum class Level { debug, info, warning, error };

// Lines below `level` are dropped; `rank` prefixes messages from ranks other than 0.
void configure(Level level, int rank, int world_size);
// This process's rank as configure() was told; 0 before.
int rank();
// Also append every line, with a UTC time stamp, to this file (empty path: stop doing so). A thread of its own writes
// there, which a disk that hangs does not keep from anything else; lines for which there is no room any more are
// counted in the file.
void tee_to(const std::filesystem::path& file);
// Waits until the file has all lines, but no longer than so many seconds; whether it has.
bool flush(double seconds);
// The live line: replaces the previous one on a terminal; ignored when stderr is not a terminal.
void set_live_line(const std::string& text);
bool stderr_is_terminal();

void write(Level level, const std::string& text);
// A line for log.txt alone, where the terminal shows the same facts in its live line.
void write_to_file(const std::string& text);

template <class... Args>
void debug(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::debug, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::info, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::warning, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::error, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace fp::log
