// Runs another program and captures its output.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace fp {

struct ProgramOutput {
  int code = 0;              // exit code; 128 + signal number if a signal ended it
  std::string text, errors;  // stdout and stderr
  bool operator==(const ProgramOutput&) const = default;
};

// Runs `command`, whose program is looked up on the PATH, with an empty stdin. Returns nullopt when it cannot be
// started, or when it was killed because it took longer than `limit` or because `stop` was requested. Thread-safe.
std::optional<ProgramOutput> run_program(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                         const std::stop_token& stop = {});

}  // namespace fp
