// Errors that a user can act on, and checked invariants.
//
// A UserError reports a mistake of the user: where it happened, the value, and what would be legal. It may be thrown
// anywhere in set-up; main() catches it, prints it and exits with its code. FP_CHECK guards invariants of fptrain: a
// check that fails is a bug.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace fp {

// Exit codes are part of the interface (docs/architecture.md, section 4).
enum class ExitCode : int {
  ok = 0,
  internal = 1,         // a bug of fptrain, as in a crash
  bad_config = 2,       // bad configuration or usage: never retry
  bad_data = 3,         // bad data or checkpoint, or a disk that cannot be written to
  diverged = 4,         // training produced non-finite values
  interrupted = 75,     // state saved; requeue the job
  infrastructure = 76,  // a host, a network or a file system failed; the same command may succeed elsewhere or later
};

class UserError : public std::runtime_error {
 public:
  UserError(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const { return code_; }
  // True if the error happened on another rank and was rethrown here so that all ranks end: this rank's host is not at
  // fault.
  bool is_of_another_rank() const { return of_another_rank_; }
  void blame_another_rank() { of_another_rank_ = true; }

 private:
  ExitCode code_;
  bool of_another_rank_ = false;
};

// Exit 2: configuration or usage.
struct ConfigError : UserError {
  explicit ConfigError(const std::string& what) : UserError(ExitCode::bad_config, what) {}
};
// Exit 3: bad data or checkpoint, or a disk that cannot be written to; exit 76 if the file system is unreachable. Code
// that tolerates the failure of a file handles both alike.
struct DataError : UserError {
  explicit DataError(const std::string& what, ExitCode code = ExitCode::bad_data) : UserError(code, what) {}
};
// Exit 4: training diverged.
struct DivergedError : UserError {
  explicit DivergedError(const std::string& what) : UserError(ExitCode::diverged, what) {}
};

// Exit 76: a call of the GPU's driver or libraries failed, or memory holds corrupt values. The configuration is not at
// fault, and the run may succeed on another host.
struct DeviceError : UserError {
  explicit DeviceError(const std::string& what) : UserError(ExitCode::infrastructure, what) {}
};
// Exit 76: a host, a network or a file system failed, and the state on disk is intact.
struct InfrastructureError : UserError {
  explicit InfrastructureError(const std::string& what) : UserError(ExitCode::infrastructure, what) {}
};

// A broken invariant of fptrain itself.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& message);

}  // namespace fp

// FP_CHECK(condition, "format {}", values...): always on; throws InternalError with place and values.
#define FP_CHECK(condition, ...)                                                    \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::fp::fail_check(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)

// FP_UNREACHABLE("format {}", values...): throws InternalError, and never returns.
#define FP_UNREACHABLE(...) ::fp::fail_check("unreachable", __FILE__, __LINE__, ::fmt::format(__VA_ARGS__))
