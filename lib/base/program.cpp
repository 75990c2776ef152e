#include "base/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

extern char** environ;

namespace fp {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  }
  ~Pipe() {
    close(0);
    close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close(size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
};

std::optional<pid_t> start(const std::vector<std::string>& command, const Pipe& text, const Pipe& errors) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, text.ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors.ends[1], STDERR_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? std::optional(pid) : std::nullopt;
}

// Reads until both pipes are closed at the other end. Returns false on timeout or stop.
bool read_both(Pipe& text, Pipe& errors, ProgramOutput& output, Clock::time_point end, const std::stop_token& stop) {
  constexpr int64_t kPollMs = 100;  // how often a stop request is polled
  while (text.ends[0] >= 0 || errors.ends[0] >= 0) {
    const int64_t left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    std::array<pollfd, 2> waiting{{{text.ends[0], POLLIN, 0}, {errors.ends[0], POLLIN, 0}}};
    if (left <= 0 || stop.stop_requested()) return false;
    const int64_t wait = stop.stop_possible() ? std::min(left, kPollMs) : left;
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(wait)) <= 0) continue;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(waiting[i].fd, buffer.data(), buffer.size());
      if (n > 0)
        (i == 0 ? output.text : output.errors).append(buffer.data(), static_cast<size_t>(n));
      else if (n == 0 || errno != EINTR)
        (i == 0 ? text : errors).close(0);
    }
  }
  return true;
}

}  // namespace

std::optional<ProgramOutput> run_program(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                         const std::stop_token& stop) {
  Pipe text, errors;
  if (text.ends[0] < 0 || errors.ends[0] < 0) return {};
  const std::optional<pid_t> pid = start(command, text, errors);
  if (!pid) return {};
  text.close(1);
  errors.close(1);
  ProgramOutput output;
  const bool in_time = read_both(text, errors, output, Clock::now() + limit, stop);
  if (!in_time) ::kill(*pid, SIGKILL);
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return {};
  output.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return output;
}

}  // namespace fp
