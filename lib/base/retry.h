// Reading from file systems that fail for a moment: a server of a network file system restarts, a handle has gone
// stale.
//
// Such an error says nothing about what a file holds. The call is repeated for about a minute, and what fails even then
// is an InfrastructureError, never a DataError.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace fp {

// The file system refuses to show what is there (no permission): that says nothing about its content either, but
// another attempt would be refused too.
struct AccessError : DataError {
  using DataError::DataError;
};

// Whether a call that failed with this errno may succeed later.
bool is_transient(int error);

// Throws what `error`, an errno, says about reading `path`, as "PATH: cannot WHAT: reason", or "PATH: reason" where
// `what` is empty. InfrastructureError: it may
// succeed later; so may ENOENT of what its folder still lists. AccessError: no permission. DataError: anything else.
[[noreturn]] void fail_reading(std::string_view what, const std::filesystem::path& path, int error);

// What waits between two attempts; tests put their own in its place. Empty: sleeping, which says progress(). Not to be
// changed while anything is retried.
void set_retry_wait(std::function<void(std::chrono::milliseconds)> wait);

// Waits before attempt number `attempt` (1: the second). Throws the error, saying how often it was met, when there have
// been enough.
void wait_to_retry(int attempt, const InfrastructureError&);

// The result of `attempt`, which is called again as long as it throws an InfrastructureError and there is patience
// left.
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
