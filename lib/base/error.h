// Errors a person can act on, and checked invariants.
//
// A user's mistake is a UserError: where it happened, the value, what would be legal. It is thrown anywhere in set-up
// and caught once in main(), which prints it and exits with its code. FP_CHECK guards our own invariants: failing is a
// bug.
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
  bad_data = 3,         // bad data or checkpoint, or a disk that refuses
  diverged = 4,         // training produced non-finite values
  interrupted = 75,     // state saved, requeue me
  infrastructure = 76,  // a host, a network or a file system failed; the same command may succeed elsewhere or later
};

class UserError : public std::runtime_error {
 public:
  UserError(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const { return code_; }
  // Whether it happened on another rank, which is thrown here too so that all end: nothing is to be held against this
  // rank's host.
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
// Exit 3: data or checkpoint, or a disk that cannot be written to; exit 76 where it is the file system that is out of
// reach. Both are survived alike where a file may fail.
struct DataError : UserError {
  explicit DataError(const std::string& what, ExitCode code = ExitCode::bad_data) : UserError(code, what) {}
};
// Exit 4: training diverged.
struct DivergedError : UserError {
  explicit DivergedError(const std::string& what) : UserError(ExitCode::diverged, what) {}
};

// Exit 76: a call of the GPU's driver or libraries failed, or memory holds what it should not; nobody's configuration
// is to blame, and another host may do better.
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
