// The suite of worlds: what every implementation has to do, checked on each rank element by element. An executable that
// links suite_comm says with run_worlds() how its ranks are started.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace fp_test {

// What ranks have found to be wrong. A rank goes on after a finding, so that the others need not wait for it.
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

// Provided by the executable: calls the body on the ranks of one world after another, on those that this process has.
void run_worlds(const Body& body, Findings& findings);
// Provided by the executable: where its worlds find what is at this address of the host.
void* device_address(void* host);

// Runs the body on all ranks and CHECKs that nothing was found.
void on_ranks(const Body& body);

// The group of all ranks.
std::shared_ptr<fp::Group> everyone(fp::World& world, const std::string& name = "all");

}  // namespace fp_test
