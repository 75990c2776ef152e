// Full disks and folders without write permission.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

// Runs f in a child process and returns its result.
template <class F>
std::string in_child(const path& scratch, const F& f) {
  std::filesystem::remove(scratch);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int fd = ::open(scratch.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const std::string result = f();
    const bool written = ::write(fd, result.data(), result.size()) == static_cast<ssize_t>(result.size());
    ::_exit(written ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  return read_file(scratch);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const DataError& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("not a DataError: ") + e.what();
  }
  return "no error";
}

void limit_file_size(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

int open_descriptors() {
  int n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

TEST_CASE("a file that cannot grow gives a clear error, and a later save succeeds") {
  const MemoryFolder dir;
  const path checkpoints = dir.path / "checkpoints";
  State state(small_table());
  save(checkpoints, state, 1, 1);
  const auto whole = std::filesystem::file_size(checkpoints / "step-00000001" / "rank-00000.h5");
  for (const rlim_t limit : {rlim_t{0}, rlim_t{512}, rlim_t{20000}, static_cast<rlim_t>(whole) - 1}) {
    INFO("limit " << limit);
    const std::string message = in_child(dir.path / "message", [&] {
      const int before = open_descriptors();
      limit_file_size(limit);
      const std::string error = error_of([&] { save(checkpoints, state, 2, 2); });
      limit_file_size(RLIM_INFINITY);
      if (open_descriptors() != before) return "a descriptor is left open after: " + error;
      if (std::filesystem::exists(checkpoints / ".tmp-step-00000002")) return "rubbish is left after: " + error;
      save(checkpoints, state, 3, 3);
      return error;
    });
    CHECK(contains(message, "checkpoint of step 2 not saved (earlier ones are intact)"));
    CHECK(contains(message, "rank-00000.h5"));
    CHECK(contains(message, "File too large"));
    CHECK_FALSE(std::filesystem::exists(checkpoints / "step-00000002"));
    State loaded(small_table());
    load_checkpoint(checkpoints / "step-00000001", loaded.store, *loaded.ops);
    CHECK(loaded.wrong(1) == 0);
    load_checkpoint(checkpoints / "step-00000003", loaded.store, *loaded.ops);
    CHECK(loaded.wrong(3) == 0);
  }
}

// Runs a save whose k-th change to the disk fails because it is full; the next ones succeed. Returns the outcome:
// "lost" when a visible checkpoint is not what was saved; empty when there is no k-th change.
std::string save_with_full_disk_at(const path& checkpoints, State& state, int k) {
  int steps = 0;
  storage::set_hook([&](storage::Step, const path&) { limit_file_size(++steps == k ? 0 : RLIM_INFINITY); });
  const std::string error = error_of([&] { save(checkpoints, state, 2, 2); });
  limit_file_size(RLIM_INFINITY);
  storage::set_hook({});
  if (error != "no error") return error;
  State loaded(small_table());
  const std::string problem =
      error_of([&] { load_checkpoint(checkpoints / "step-00000002", loaded.store, *loaded.ops); });
  if (problem != "no error" || loaded.wrong(2) != 0) return "lost: " + problem;
  return steps < k ? "" : "saved";
}

TEST_CASE("a temporarily full disk fails a save but never corrupts one") {
  const MemoryFolder dir;
  State state(small_table());
  std::string outcome = "begun";
  int refused = 0;
  for (int k = 1; !outcome.empty(); ++k) {
    const path checkpoints = dir.path / std::to_string(k);
    outcome = in_child(dir.path / "outcome", [&] { return save_with_full_disk_at(checkpoints, state, k); });
    INFO("change " << k << ": " << outcome);
    CHECK_FALSE(contains(outcome, "lost"));
    refused += contains(outcome, "not saved (earlier ones are intact)");
    std::filesystem::remove_all(checkpoints);
  }
  CHECK(refused > 20);
}

TEST_CASE("a folder without write permission gives a clear error") {
  const MemoryFolder dir;
  std::filesystem::permissions(dir.path, std::filesystem::perms::all);
  const path checkpoints = dir.path / "checkpoints";
  State state(small_table());
  save(checkpoints, state, 1, 1);
  std::filesystem::permissions(checkpoints, std::filesystem::perms{0555});
  const std::string message = in_child(dir.path / "message", [&] {
    // Permissions do not bind root.
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return std::string("cannot become another user");
    return error_of([&] { save(checkpoints, state, 2, 2); });
  });
  CHECK(contains(message, ".tmp-step-00000002: cannot create the folder: Permission denied"));
  CHECK(find_latest(checkpoints)->manifest().step == 1);
}

TEST_CASE("a folder that cannot be created gives a clear error") {
  const MemoryFolder dir;
  write_text(dir.path / "file", "");
  State state(small_table());
  CHECK(contains(data_error([&] { save(dir.path / "file" / "checkpoints", state, 1, 1); }), "Not a directory"));
}

}  // namespace
}  // namespace fp::test
