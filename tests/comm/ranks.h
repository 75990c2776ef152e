// The suite of worlds: tests that every World implementation must pass, checked on each rank element by element. An
// executable that links suite_comm defines with run_worlds() how its ranks are started.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace fp::test {

// Failed expectations of all ranks. A rank continues after a failure, so that the others do not wait for it.
// Thread-safe.
class Findings {
 public:
  template <class... Args>
  void expect(bool holds, fmt::format_string<Args...> what, Args&&... args) {
    if (!holds) add(fmt::format(what, std::forward<Args>(args)...));
  }
  void add(std::string finding) {
    const std::lock_guard lock(mutex_);
    found_.push_back(std::move(finding));
  }
  const std::vector<std::string>& all() const { return found_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> found_;
};

using Body = std::function<void(fp::World&, Findings&)>;

// Provided by the executable: for one world after another, calls the body on the ranks that this process has.
void run_worlds(const Body& body, Findings& findings);
// Provided by the executable: translates a host address to the address that its worlds use for that memory.
void* device_address(void* host);

// Runs the body on all ranks and CHECKs that no expectation failed.
void on_ranks(const Body& body);

// Returns the group of all ranks.
std::shared_ptr<fp::Group> everyone(fp::World& world, const std::string& name = "all");

}  // namespace fp::test
