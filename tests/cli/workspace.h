// A prepared small corpus, and run specs to train on it.
#pragma once

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/process.h"

namespace fp::test {

class Workspace {
 public:
  Workspace();

  std::filesystem::path root() const { return folder_.path; }
  std::filesystem::path data() const { return root() / "data"; }
  std::filesystem::path run_directory(const std::string& name) const { return root() / "runs" / name; }

  // Writes a spec for a tiny model of a family ("gpt", "llama", "phi3", "phi3small", "qwen3"), with dropout and 20
  // steps, and returns its path.
  std::filesystem::path spec(const std::string& family, const std::string& precision) const;
  // Returns the command `fptrain train SPEC` with the run directory `name` and the arguments `more`.
  std::vector<std::string> train(const std::filesystem::path& spec, const std::string& name,
                                 const std::vector<std::string>& more = {}) const;

 private:
  TemporaryFolder folder_;
};

// Returns the command `fptrain` with these arguments.
inline std::vector<std::string> fptrain(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), FP_EXECUTABLE);
  return arguments;
}

// Returns a train command with a fault such as "rank=3,step=5,phase=step,kind=kill".
inline std::vector<std::string> with_fault(const std::string& fault, std::vector<std::string> command) {
  command.insert(command.begin(), {"/usr/bin/env", "FPTRAIN_FAULT=" + fault});
  command.emplace_back("--allow-faults");
  return command;
}

// Returns loss and gradient norm by step.
std::map<int, std::pair<double, double>> history(const std::filesystem::path& run_directory);
// Returns the names of the complete checkpoints, oldest first.
std::vector<std::string> checkpoints(const std::filesystem::path& run_directory);
// Returns the fingerprints of all parameters and moments, and the position in the data, from a checkpoint's manifest.
nlohmann::json fingerprint(const std::filesystem::path& checkpoint);
// Changes a byte in the middle of the tensors in a rank file.
void damage_tensors(const std::filesystem::path& checkpoint, int rank);

}  // namespace fp::test
