// Running another program and reading what it says.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace fp {

struct ProgramOutput {
  int code = 0;              // its exit code; 128 + the signal that ended it
  std::string text, errors;  // its stdout and stderr
  bool operator==(const ProgramOutput&) const = default;
};

// The program is looked for on the PATH. Nothing when it cannot be started, or was killed for taking longer than this
// or because of a stop. Safe beside other threads.
std::optional<ProgramOutput> run_program(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                         const std::stop_token& stop = {});

}  // namespace fp
