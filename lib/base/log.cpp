#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/shown.h"
#include "base/work_queue.h"

namespace fp::log {
namespace {

constexpr size_t kMostLines = 10000;  // waiting for the disk

// Only the queue's thread uses `descriptor` after the file is set.
struct LogFile {
  FileDescriptor descriptor;
  std::function<FileDescriptor()> open;  // empty once called, and for a file that was passed open
  Level level = Level::debug;            // lines below it are not written
};

struct State {
  std::mutex mutex;
  Level level = Level::info;
  std::atomic<int> rank{0};  // read even while a thread that is stuck in a write holds the mutex
  int world_size = 1;
  std::string live;
  std::shared_ptr<LogFile> file;
  std::shared_ptr<WorkQueue> queue;
  int64_t left_out = 0;  // lines dropped while the queue was full
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

// A line that the disk refuses is lost; a full disk may have space again for the next one.
void write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

// The caller holds the mutex.
void append_to_file(State& s, Level level, const std::string& line) {
  if (!s.file || level < s.file->level) return;
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string stamp = fmt::format("{:%Y-%m-%dT%H:%M:%SZ} ", fmt::gmtime(now));
  std::string text = stamp + line + "\n";
  if (s.left_out > 0) text = fmt::format("{}{} lines omitted: the disk did not respond\n{}", stamp, s.left_out, text);
  const bool taken = s.queue->post([file = s.file, text] {
    if (file->open) file->descriptor = std::exchange(file->open, nullptr)();
    if (file->descriptor.is_open()) write_whole(file->descriptor.get(), text);
  });
  s.left_out = taken ? 0 : s.left_out + 1;
}

// Waits until the lines for the former file are written.
void set_file(std::shared_ptr<LogFile> file) {
  flush(WorkQueue::kPatience);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.file = std::move(file);
  if (s.file && !s.queue) s.queue = std::make_shared<WorkQueue>(kMostLines);
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

void tee_to(FileDescriptor file) {
  set_file(file.is_open() ? std::make_shared<LogFile>(LogFile{std::move(file), nullptr}) : nullptr);
}

void tee_errors_to(std::function<FileDescriptor()> open) {
  set_file(std::make_shared<LogFile>(LogFile{FileDescriptor(), std::move(open), Level::error}));
}

bool flush(double seconds) {
  std::shared_ptr<WorkQueue> queue;
  {
    const std::lock_guard lock(state().mutex);
    queue = state().queue;
  }
  return !queue || queue->flush(seconds);
}

namespace {

// What cannot be written, such as to a full disk, is lost: that must not end a run.
void to_stderr(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::clearerr(stderr);
}

}  // namespace

void set_live_line(const std::string& text) {
  if (!stderr_is_terminal()) return;
  const std::lock_guard lock(state().mutex);
  state().live = text;
  to_stderr("\r\x1b[K" + text);
}

void write(Level level, const std::string& text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (level < s.level || (s.rank != 0 && level < Level::warning)) return;
  const std::string who =
      s.rank != 0 || (s.world_size > 1 && level >= Level::warning) ? fmt::format("[rank {}] ", s.rank.load()) : "";
  const std::string line = who + prefix(level) + printable(text);
  append_to_file(s, level, line);
  to_stderr((s.live.empty() ? "" : "\r\x1b[K") + line + "\n" + s.live);
}

void write_to_file(const std::string& text) {
  const std::lock_guard lock(state().mutex);
  append_to_file(state(), Level::info, printable(text));
}

}  // namespace fp::log
