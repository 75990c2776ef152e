// Errors for failed memory allocations: the host has too little memory, or `ulimit -v` or a control group limits it.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <type_traits>

#include "base/error.h"

namespace fp {

// Exit 76: the program cannot name a mistake, and another host may have enough memory.
struct MemoryError : UserError {
  explicit MemoryError(const std::string& what) : UserError(ExitCode::infrastructure, what) {}
};

// Returns the message for a std::bad_alloc that nothing else caught; `during` reads like "in phase 'step', step 12".
inline std::string out_of_memory(const std::string& during) {
  return fmt::format(
      "out of memory {}: the system refused to allocate more to this process (the host's memory, a control group's "
      "limit, "
      "ulimit -v)",
      during);
}

// Returns the result of `work`, which allocates about `bytes` bytes at once because a file or a run spec says so. A
// std::bad_alloc becomes a MemoryError in which what() names the purpose: "WHAT: out of memory: 1048576 bytes were
// requested".
template <class What, class Work>
std::invoke_result_t<Work> with_memory_for(uint64_t bytes, What&& what, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw MemoryError(fmt::format("{}: out of memory: {} bytes were requested", what(), bytes));
  }
}

}  // namespace fp
