// Training under mpirun: run specs that many meshes can run, and jobs that track all their processes.
#pragma once

#include "cli/workspace.h"
#include "support/count_of.h"

namespace fp::test {

struct Layout {
  int tensor = 1, sequence = 1, data = 1, zero = 0;
  bool megatron = false;
  std::string recompute = "none";
  int pipeline = 1;
  std::string schedule = "1f1b";  // with more keys: "zeropp chunks=2"

  int ranks() const { return tensor * sequence * data * pipeline; }
  std::string text() const;
  std::vector<std::string> settings() const;  // --set ...
};

// Returns a layout with pipeline ranks too.
inline Layout piped(int ranks, const std::string& schedule, Layout beside = {}) {
  beside.pipeline = ranks;
  beside.schedule = schedule;
  return beside;
}

// Settings of a run with layers for pipelines, which saves in the middle.
constexpr int kPipelineSteps = 20;
inline const std::vector<std::string> kPipelineRun{"--set", "train.steps=20", "--set", "checkpoint.every=10",
                                                   "--set", "model.layers=6"};

// Tiny models of a family ("gpt", "llama", "phi3") with heads for eight ranks, fp32, 12 steps, each run in its own
// directory. Dropout is on; tokens, vocabulary and feed-forward width do not divide by 4. Adam's eps is far above the
// rounding error of a gradient: otherwise Adam would amplify gradients that are only rounding errors to full steps.
class RanksWorkspace {
 public:
  RanksWorkspace();

  std::filesystem::path spec(const std::string& family) const;
  // Returns the command for fptrain train under mpirun; without mpirun for one rank.
  std::vector<std::string> train(const std::filesystem::path& spec, const std::string& name, const Layout&,
                                 const std::vector<std::string>& more = {}) const;
  std::filesystem::path run_directory(const std::string& name) const { return files_.run_directory(name); }
  std::filesystem::path root() const { return files_.root(); }
  std::filesystem::path data() const { return files_.data(); }

 private:
  Workspace files_;
};

// Returns mpirun -np RANKS fptrain ARGUMENTS, which also works with more ranks than cores and as root.
std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& arguments);

// Command lines for one mpirun whose ranks have different arguments, with options of mpirun for each.
struct RankCommand {
  std::vector<std::string> arguments;  // of fptrain
  std::vector<std::string> options = {};
  std::string program = FP_EXECUTABLE;
};
std::vector<std::string> mpirun(const std::vector<RankCommand>& ranks);

// Changes a command of mpirun: when a rank is killed, mpirun returns 0 and leaves it to the lifeline to end the others.
// Otherwise it kills them within two seconds, and what they print meanwhile may be lost.
std::vector<std::string> spare_others(std::vector<std::string> command);

// A running command whose processes are identified by an environment variable. The destructor kills those that remain.
class Job {
 public:
  explicit Job(std::vector<std::string> command);
  ~Job();

  // Waits for mpirun and all its ranks to end and returns mpirun's exit code; -1 when mpirun hangs, which takes minutes
  // to decide. processes() then has the ranks that hang.
  int wait();
  std::string output() const { return process_.output(); }
  void wait_for(const std::string& text);  // until the output has it or the job ends
  void wait_for_stopped_rank();            // until a signal has stopped a rank or the job ends
  void signal(int number) { process_.kill(number); }
  std::vector<pid_t> processes() const;  // including mpirun
  std::vector<pid_t> ranks() const;      // without mpirun
  bool contains(const std::string& text) const { return count(text) > 0; }
  int count(const std::string& text) const { return count_of(output(), text); }

 private:
  std::string mark() const { return "FP_TEST_JOB=" + folder_.path.string(); }

  TemporaryFolder folder_;
  Process process_;
};

// Returns settings under which a rank that hangs in `phases` ("step", "save") is detected as soon as is safe on this
// machine under its current load: after ten times the longest pause between two steps of that healthy run.
std::vector<std::string> short_watchdog(const std::filesystem::path& healthy_run,
                                        const std::vector<std::string>& phases);

// Runs a command that must succeed.
void expect_success(const std::vector<std::string>& command);

// Returns the largest relative difference of the losses that `resumed` has logged. Both must have logged all steps up
// to `steps`.
double worst_loss(const std::filesystem::path& whole, const std::filesystem::path& resumed, int steps);

}  // namespace fp::test
