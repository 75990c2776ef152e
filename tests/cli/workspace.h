// A small corpus, prepared, and run specs to train on it.
#pragma once

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/process.h"

namespace fp::testing {

class Workspace {
 public:
  Workspace();

  std::filesystem::path root() const { return folder_.path; }
  std::filesystem::path data() const { return root() / "data"; }
  std::filesystem::path run_directory(const std::string& name) const { return root() / "runs" / name; }

  // A spec file for a tiny model of a family ("gpt", "llama", "phi3", "phi3small"), dropout on, 20 steps.
  std::filesystem::path spec(const std::string& family, const std::string& precision) const;
  // fptrain train SPEC with the run directory `name` and further arguments.
  std::vector<std::string> train(const std::filesystem::path& spec, const std::string& name,
                                 const std::vector<std::string>& more = {}) const;

 private:
  TemporaryFolder folder_;
};

inline std::vector<std::string> fptrain(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), FP_EXECUTABLE);
  return arguments;
}

// `command` with a fault: "rank=3,step=5,phase=step,kind=kill".
inline std::vector<std::string> with_fault(const std::string& fault, std::vector<std::string> command) {
  command.insert(command.begin(), {"/usr/bin/env", "FPTRAIN_FAULT=" + fault});
  return command;
}

// Loss and gradient norm by step.
std::map<int, std::pair<double, double>> history(const std::filesystem::path& run_directory);
// Names of the complete checkpoints, oldest first.
std::vector<std::string> checkpoints(const std::filesystem::path& run_directory);
// Fingerprints of every parameter and moment, and the position in the data, from a checkpoint's manifest.
nlohmann::json fingerprint(const std::filesystem::path& checkpoint);
// Changes a byte in the middle of what a rank has stored, where its tensors lie.
void damage_tensors(const std::filesystem::path& checkpoint, int rank);

}  // namespace fp::testing
