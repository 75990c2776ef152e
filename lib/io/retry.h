// Retries reads that fail transiently: the server of a network file system restarts, or a file handle has gone stale.
//
// Such an error does not mean that the content of a file is bad. The call is repeated for about a minute; if it still
// fails, the error is an InfrastructureError, never a DataError.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace fp {

// Thrown when permission is denied: this does not mean that the content is bad either, but another attempt would fail
// too.
struct AccessError : DataError {
  using DataError::DataError;
};

// Returns whether a call that failed with this errno may succeed later.
bool is_transient(int error);

// Throws the exception for a failure to read `path` with errno `error`, with the text "PATH: cannot WHAT: reason", or
// "PATH: reason" if `what` is empty. InfrastructureError: the call may succeed later, which includes ENOENT for a name
// that its folder still lists. AccessError: permission denied. DataError: anything else.
[[noreturn]] void fail_reading(std::string_view what, const std::filesystem::path& path, int error);

// Sets the function that waits between two attempts, for tests. Empty: sleeps and calls progress(). Must not be called
// while anything is retried.
void set_retry_wait(std::function<void(std::chrono::milliseconds)> wait);

// Waits after failed attempt number `attempt`, counted from 1. After the last one it throws the error, with the number
// of attempts added.
void wait_to_retry(int attempt, const InfrastructureError&);

// Returns the result of `attempt`, which is called again while it throws InfrastructureError, for about a minute.
template <class Attempt>
std::invoke_result_t<const Attempt&> with_retries(const Attempt& attempt) {
  for (int n = 1;; ++n) {
    try {
      return attempt();
    } catch (const InfrastructureError& e) {
      wait_to_retry(n, e);
    }
  }
}

}  // namespace fp
