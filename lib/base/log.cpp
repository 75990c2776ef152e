#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>

#include "base/work_queue.h"

namespace fp::log {
namespace {

constexpr size_t kMostLines = 10000;  // that wait for the disk

struct State {
  std::mutex mutex;
  Level level = Level::info;
  std::atomic<int> rank{0};  // asked for while a thread that is stuck writing holds the mutex
  int world_size = 1;
  std::string live;
  std::shared_ptr<std::ofstream> file;  // the queue's thread writes to it
  std::shared_ptr<WorkQueue> queue;
  int64_t left_out = 0;  // lines, while the queue was full
};

State& state() {
  static State s;
  return s;
}

const char* prefix(Level level) {
  switch (level) {
    case Level::debug:
      return "debug: ";
    case Level::info:
      return "";
    case Level::warning:
      return "warning: ";
    case Level::error:
      return "error: ";
  }
  return "";
}

// The caller holds the mutex.
void append_to_file(State& s, const std::string& line) {
  if (!s.file) return;
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string stamp = fmt::format("{:%Y-%m-%dT%H:%M:%SZ} ", fmt::gmtime(now));
  std::string text = stamp + line + "\n";
  if (s.left_out > 0)
    text = fmt::format("{}{} lines are left out here: the disk took none for too long\n{}", stamp, s.left_out, text);
  const bool taken = s.queue->post([file = s.file, text] {
    file->clear();  // a full disk may have room again
    *file << text << std::flush;
  });
  s.left_out = taken ? 0 : s.left_out + 1;
}

}  // namespace

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

void configure(Level level, int rank, int world_size) {
  const std::lock_guard lock(state().mutex);
  state().level = level;
  state().rank = rank;
  state().world_size = world_size;
}

int rank() { return state().rank; }

void tee_to(const std::filesystem::path& file) {
  flush(WorkQueue::kPatience);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.file.reset();
  if (file.empty()) return;
  if (!s.queue) s.queue = std::make_shared<WorkQueue>(kMostLines);
  s.file = std::make_shared<std::ofstream>(file, std::ios::app);
}

bool flush(double seconds) {
  std::shared_ptr<WorkQueue> queue;
  {
    const std::lock_guard lock(state().mutex);
    queue = state().queue;
  }
  return !queue || queue->flush(seconds);
}

void set_live_line(const std::string& text) {
  if (!stderr_is_terminal()) return;
  const std::lock_guard lock(state().mutex);
  state().live = text;
  fmt::print(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
}

void write(Level level, const std::string& text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (level < s.level || (s.rank != 0 && level < Level::warning)) return;
  const std::string who =
      s.rank != 0 || (s.world_size > 1 && level >= Level::warning) ? fmt::format("[rank {}] ", s.rank.load()) : "";
  const std::string line = who + prefix(level) + text;
  if (!s.live.empty()) fmt::print(stderr, "\r\x1b[K");
  fmt::print(stderr, "{}\n", line);
  if (!s.live.empty()) fmt::print(stderr, "{}", s.live);
  std::fflush(stderr);
  append_to_file(s, line);
}

void write_to_file(const std::string& text) {
  const std::lock_guard lock(state().mutex);
  append_to_file(state(), text);
}

}  // namespace fp::log
