// The result of a rank's work, or the error that it met, in a form that other ranks can be sent.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace fp {

struct RankResult {
  ExitCode code = ExitCode::ok;
  bool is_data_error = false;  // an error of code infrastructure that was thrown as DataError, not InfrastructureError
  double seconds = 0;          // time that the work took
  std::string text;            // the result, or the message of the error

  bool ok() const { return code == ExitCode::ok; }
  // Returns the result, or throws the error as an exception of its kind.
  const std::string& value() const;

  // Serializes the result; parse() is the inverse.
  std::string serialize() const;
  static RankResult parse(const std::string& serialized);
};

// Runs `work` and returns its result or the UserError that it threw. A CommError passes through.
RankResult run_and_catch(const std::function<std::string()>& work);

}  // namespace fp
