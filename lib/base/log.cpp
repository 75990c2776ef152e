#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>

namespace fp::log {
namespace {

struct State {
  std::mutex mutex;
  Level level = Level::info;
  int rank = 0;
  int world_size = 1;
  std::ofstream file;
  std::string live;
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
  if (!s.file.is_open()) return;
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  s.file.clear();  // a full disk may have room again
  s.file << fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {}\n", fmt::gmtime(now), line) << std::flush;
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

int rank() {
  const std::lock_guard lock(state().mutex);
  return state().rank;
}

void tee_to(const std::filesystem::path& file) {
  const std::lock_guard lock(state().mutex);
  state().file.close();
  if (!file.empty()) state().file.open(file, std::ios::app);
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
      s.rank != 0 || (s.world_size > 1 && level >= Level::warning) ? fmt::format("[rank {}] ", s.rank) : "";
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
