// The log file (log.txt) of a run.
#pragma once

#include <filesystem>

namespace fp {

// Also appends all later log lines to this file. If it cannot be opened, or is a symbolic link, logs a warning and
// continues on stderr alone.
void log_to_file(const std::filesystem::path& path);
// Also appends all later errors to this file, for ranks other than rank 0. It is opened with the first error; if that
// fails, the error is on stderr alone.
void log_errors_to_file(const std::filesystem::path& path);

}  // namespace fp
