// A process that dies at any step of a save or a deletion loses no complete checkpoint.
#include <sys/wait.h>

#include <csignal>
#include <map>
#include <set>

#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;
using storage::Step;

// Every step is tried, so one layer must do.
ParamTable tiny_table() { return small_table(1, 0, 1); }

// Runs f in a child that is killed just before the k-th change to the disk. Returns false when f ended before.
template <class F>
bool killed_at(int k, const F& f) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int steps = 0;
    storage::set_hook([&](Step, const path&) {
      if (++steps == k) ::kill(::getpid(), SIGKILL);
    });
    f();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGKILL;
  REQUIRE(WEXITSTATUS(status) == 0);
  return false;
}

// Returns (step, seed it was filled with) of the newest checkpoint, after checking that it loads completely.
std::pair<int64_t, uint64_t> latest(const path& checkpoints, std::initializer_list<uint64_t> seeds) {
  State state(tiny_table());
  const auto c = find_latest(checkpoints);
  REQUIRE(c);
  c->load(state.store, *state.ops);
  for (const uint64_t seed : seeds)
    if (state.wrong(seed) == 0) return {c->manifest().step, seed};
  FAIL("the newest checkpoint holds something that was never saved");
  return {};
}

bool any_hidden(const path& checkpoints) {
  for (const std::string& name : names_in(checkpoints))
    if (name.starts_with(".")) return true;
  return false;
}

TEST_CASE("a save that is killed at any step is complete or invisible") {
  const MemoryFolder dir;
  State state(tiny_table());
  save(dir.path, state, 1, 1);
  int k = 1;
  for (bool killed = true; killed; ++k) {
    INFO("killed before change " << k);
    killed = killed_at(k, [&] { save(dir.path, state, 2, 2); });
    const auto found = latest(dir.path, {1, 2});
    CHECK((found == std::pair<int64_t, uint64_t>(1, 1) || found == std::pair<int64_t, uint64_t>(2, 2)));
    CHECK((killed || found.first == 2));
    CHECK(logged(dir.path / "log.txt", [&] { find_latest(dir.path); }).empty());  // nothing visible is bad
    clean_leftovers(dir.path);
    CHECK_FALSE(any_hidden(dir.path));
    std::filesystem::remove_all(dir.path / "step-00000002");
  }
  CHECK(k > 30);
}

TEST_CASE("replacing a checkpoint, killed at any step, leaves the old or the new one") {
  const MemoryFolder dir;
  State state(tiny_table());
  save(dir.path, state, 1, 1);
  save(dir.path, state, 2, 2);
  uint64_t now = 2;
  bool killed = true, old_kept = false, new_taken = false;
  for (int k = 1; killed; ++k) {
    INFO("killed before change " << k);
    const uint64_t next = now == 2 ? 3 : 2;
    killed = killed_at(k, [&] { save(dir.path, state, 2, next); });
    clean_leftovers(dir.path);
    CHECK_FALSE(any_hidden(dir.path));
    const auto found = latest(dir.path, {2, 3});
    CHECK(found.first == 2);
    (found.second == now ? old_kept : new_taken) = true;
    now = found.second;
  }
  CHECK(old_kept);
  CHECK(new_taken);
}

TEST_CASE("retention, killed at any step, leaves no partial checkpoint and keeps the right ones") {
  const MemoryFolder dir;
  State state(tiny_table());
  for (const int64_t step : {1, 2, 3, 4}) save(dir.path / "all", state, step, static_cast<uint64_t>(step));
  bool killed = true;
  for (int k = 1; killed; ++k) {
    INFO("killed before change " << k);
    const path checkpoints = dir.path / "now";
    std::filesystem::copy(dir.path / "all", checkpoints, std::filesystem::copy_options::recursive);
    killed = killed_at(k, [&] { apply_retention(checkpoints, {2, 0}, kAll); });
    const std::vector<path> visible = checkpoints_in(checkpoints);
    REQUIRE(visible.size() >= 2);
    for (const path& p : visible) CHECK_NOTHROW(Checkpoint::open(p));
    CHECK(visible[0].filename() == "step-00000004");
    CHECK(visible[1].filename() == "step-00000003");
    // Cleaning up may be killed as well; once it completes, nothing is left over.
    bool cleaning = true;
    for (int c = 1; cleaning; c += 3) cleaning = killed_at(c, [&] { clean_leftovers(checkpoints); });
    CHECK_FALSE(any_hidden(checkpoints));
    std::filesystem::remove_all(checkpoints);
  }
}

TEST_CASE("nothing becomes visible before it is on disk") {
  const MemoryFolder dir;
  State state(tiny_table());
  state.fill(1);
  std::vector<std::pair<Step, path>> trace;
  storage::set_hook([&](Step step, const path& p) { trace.emplace_back(step, p); });
  save_checkpoint(dir.path, state.store, *state.ops, some_state(1), {});
  storage::set_hook({});

  const path hidden = dir.path / ".tmp-step-00000001";
  std::map<path, size_t> changed, synced;  // position of the last such step
  std::vector<path> created;
  size_t renamed = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto& [step, p] = trace[i];
    if (step == Step::create_file) {
      created.push_back(p);
      changed[hidden] = i;
    }
    if (step == Step::create_file || step == Step::write || step == Step::close) changed[p] = i;
    if (step == Step::sync) synced[p] = i;
    if (step == Step::rename) {
      CHECK(p == hidden);
      CHECK(renamed == 0);
      renamed = i;
    }
  }
  REQUIRE(renamed > 0);
  REQUIRE(created.size() == 6);
  CHECK(created.back() == hidden / "manifest.json");
  for (const auto& [p, last] : changed) {
    INFO(p);
    CHECK(synced.count(p) == 1);
    CHECK(last < synced[p]);
    CHECK(synced[p] < renamed);
  }
  CHECK(synced[hidden / "rank-00000.h5"] < changed[hidden / "manifest.json"]);
  CHECK(synced[dir.path] > renamed);
}

}  // namespace
}  // namespace fp::test
