// The log: writes lines to stderr and, once a run directory exists, to its log.txt, escaped by printable()
// (base/shown.h). Ranks other than rank 0 log warnings and errors only, and to log.txt only errors. A live progress
// line on the terminal is cleared before each log line and redrawn after it.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

#include "base/file_descriptor.h"

namespace fp::log {

enum class Level { debug, info, warning, error };

// Drops lines below `level`; lines of ranks other than 0 are prefixed with `rank`.
void configure(Level level, int rank, int world_size);
// This process's rank as set by configure(); 0 before that.
int rank();
// Also appends every line, with a UTC time stamp, to `file`; passing a closed descriptor stops that. A separate thread
// writes the file, so a disk that hangs delays nothing else; lines that do not fit into its queue are dropped, and the
// file records their number. log_to_file() (io/log_file.h) opens a path.
void tee_to(FileDescriptor file);
// Does the same for errors only, in place of any former file. The thread that writes calls `open`, which must not
// throw, before the first of them, so a process that logs no error opens no file.
void tee_errors_to(std::function<FileDescriptor()> open);
// Waits up to `seconds` until all lines are written to the file. Returns whether they were.
bool flush(double seconds);
// Replaces the live line of the terminal; ignored when stderr is not a terminal.
void set_live_line(const std::string& text);
bool stderr_is_terminal();

void write(Level level, const std::string& text);
// Writes a line to log.txt only, for facts that the terminal shows in its live line.
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
