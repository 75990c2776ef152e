// Training under mpirun: specs that many meshes can run, and jobs whose every process is accounted for.
#pragma once

#include "cli/workspace.h"

namespace fp::testing {

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

// Tiny models of a family ("gpt", "llama", "phi3") with heads for eight ranks, fp32, 12 steps in run directories of
// their own. Dropout is on; tokens, vocabulary and feed-forward width do not divide by 4. Adam's eps is far above the
// rounding of a gradient, which it would blow up to whole steps where a gradient is nothing else.
class RanksWorkspace {
 public:
  RanksWorkspace();

  std::filesystem::path spec(const std::string& family) const;
  // fptrain train under mpirun; without mpirun for one rank.
  std::vector<std::string> train(const std::filesystem::path& spec, const std::string& name, const Layout&,
                                 const std::vector<std::string>& more = {}) const;
  std::filesystem::path run_directory(const std::string& name) const { return files_.run_directory(name); }
  std::filesystem::path root() const { return files_.root(); }
  std::filesystem::path data() const { return files_.data(); }

 private:
  Workspace files_;
};

// mpirun -np RANKS fptrain ARGUMENTS, more ranks than cores or not, as root or not.
std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& arguments);

// One mpirun whose ranks have a command line each, with options of mpirun before it: what to start, and how.
struct RankCommand {
  std::vector<std::string> arguments;  // of fptrain
  std::vector<std::string> options = {};
  std::string program = FP_EXECUTABLE;
};
std::vector<std::string> mpirun(const std::vector<RankCommand>& ranks);

// A command whose processes are known by a variable in their environment. What is left of them is killed at the end.
class Job {
 public:
  explicit Job(std::vector<std::string> command);
  ~Job();

  // mpirun's exit code once it and all its ranks have ended. -1 when mpirun hangs, and processes() names ranks that do:
  // it takes minutes to call that so.
  int wait();
  std::string output() const { return process_.output(); }
  void wait_for(const std::string& text);  // in the output, or the end
  void wait_for_stopped_rank();            // by a signal, or the end
  void signal(int number) { process_.kill(number); }
  std::vector<pid_t> processes() const;  // mpirun among them
  std::vector<pid_t> ranks() const;      // without it
  bool contains(const std::string& text) const { return count(text) > 0; }
  int count(const std::string& text) const;  // times the output has it

 private:
  std::string mark() const { return "FP_TEST_JOB=" + folder_.path.string(); }

  TemporaryFolder folder_;
  Process process_;
};

// Settings under which a rank that stands still in `phases` ("step", "save") is found as soon as no healthy rank can be
// taken for it on this machine as it is now: after ten times the longest pause between two steps of that healthy run.
std::vector<std::string> short_watchdog(const std::filesystem::path& healthy_run,
                                        const std::vector<std::string>& phases);

// A whole run that must succeed.
void run_well(const std::vector<std::string>& command);

// Largest relative difference of the losses that `resumed` has logged; both logged all steps up to `steps`.
double worst_loss(const std::filesystem::path& whole, const std::filesystem::path& resumed, int steps);

}  // namespace fp::testing
