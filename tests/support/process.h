// Starts the fptrain executable and other programs from a test, as a user would.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace fp::test {

inline std::string slurp(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// A child process. Its stdout and stderr go to one file. The destructor kills it if it still runs.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& output) : output_(output) {
    pid_ = ::fork();
    if (pid_ == 0) {
      const int fd = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      ::dup2(fd, 1);
      ::dup2(fd, 2);
      std::vector<char*> argv;
      for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~Process() {
    if (running()) {
      kill(SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool running() {
    if (done_) return false;
    done_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return !done_;
  }
  void kill(int signal) { ::kill(pid_, signal); }
  // Waits until the process is stopped by a signal (returns true) or has ended (false).
  bool wait_until_stopped() {
    if (!done_) done_ = ::waitpid(pid_, &status_, WUNTRACED) == pid_ && !WIFSTOPPED(status_);
    return !done_;
  }
  // Waits for the end. Returns the exit code, or 128 + signal when a signal ended it.
  int wait() {
    if (!done_) ::waitpid(pid_, &status_, 0);
    done_ = true;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  std::string output() const { return slurp(output_); }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool done_ = false;
  std::filesystem::path output_;
};

struct Outcome {
  int code = 0;
  std::string output;  // stdout and stderr together
};

// Runs a program to its end.
inline Outcome run(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  Process p(arguments, folder.path / "output");
  const int code = p.wait();
  return {code, p.output()};
}

// Runs a command line by the shell.
inline Outcome run_shell(const std::string& command) { return run({"/bin/sh", "-c", command}); }

}  // namespace fp::test
