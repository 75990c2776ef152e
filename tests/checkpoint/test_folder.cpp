// Choosing the checkpoint of a folder to resume from, and those to keep.
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

struct Run {
  MemoryFolder dir;
  path checkpoints = dir.path / "checkpoints";
  path log = dir.path / "log.txt";
  State state{small_table()};
  void save_steps(std::initializer_list<int64_t> steps) {
    for (const int64_t step : steps) save(checkpoints, state, step, static_cast<uint64_t>(step));
  }
  std::vector<std::string> names() const { return names_in(checkpoints); }
};

void damage(const path& file) {
  std::string content = read_file(file);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 4);
  write_text(file, content);
}

TEST_CASE("checkpoint names and steps convert both ways") {
  CHECK(checkpoint_name(100) == "step-00000100");
  CHECK(checkpoint_name(1234567890) == "step-1234567890");
  CHECK(checkpoint_step("step-00000100") == 100);
  CHECK(checkpoint_step("step-1234567890") == 1234567890);
  for (const char* name : {"step-100", "step-0000010x", "step-", "step--0000001", ".tmp-step-00000100",
                           "step-00000100.aside-1", "step-99999999999999999999"})
    CHECK_FALSE(checkpoint_step(name));
}

TEST_CASE("the newest good checkpoint is found and bad newer ones are named") {
  Run run;
  CHECK_FALSE(find_latest(run.checkpoints));
  run.save_steps({9, 10, 100, 200});
  CHECK(find_latest(run.checkpoints)->manifest().step == 200);

  damage(run.checkpoints / "step-00000200" / "rank-00000.h5");
  std::filesystem::create_directory(run.checkpoints / "step-00000300");
  write_text(run.checkpoints / "step-00000300" / "model.bin", "not ours");
  std::filesystem::copy(run.checkpoints / "step-00000009", run.checkpoints / "step-00000400");
  write_text(run.checkpoints / "step-00000500", "a file");
  std::filesystem::create_directory(run.checkpoints / ".tmp-step-00000600");
  std::optional<Checkpoint> latest;
  const std::string text = logged(run.log, [&] { latest = find_latest(run.checkpoints); });
  REQUIRE(latest);
  CHECK(latest->manifest().step == 100);
  CHECK(contains(text, "step-00000200"));
  CHECK(contains(text, "rank-00000.h5: content differs"));
  CHECK(contains(text, "step-00000300: not a complete fptrain checkpoint"));
  CHECK(contains(text, "step-00000400: holds step 9"));
  CHECK(contains(text, "step-00000500"));
}

TEST_CASE("a checkpoint of another model is skipped when the table is known") {
  Run run;
  run.save_steps({1});
  ParamTable other;
  other.add("w", {3, 3}, Partition::replicated(), {});
  State foreign(other);
  save(run.checkpoints, foreign, 2, 1);
  CHECK(find_latest(run.checkpoints)->manifest().step == 2);
  std::optional<Checkpoint> latest;
  const std::string text = logged(run.log, [&] { latest = find_latest(run.checkpoints, &run.state.table); });
  CHECK(latest->manifest().step == 1);
  CHECK(contains(text, "holds another model"));
  CHECK(contains(text, "is not in the checkpoint"));
}

TEST_CASE("a path may be a checkpoint, a checkpoints folder or a run directory") {
  Run run;
  run.save_steps({1, 2});
  CHECK(open_checkpoint_at(run.dir.path).manifest().step == 2);
  CHECK(open_checkpoint_at(run.checkpoints).manifest().step == 2);
  CHECK(open_checkpoint_at(run.checkpoints / "step-00000001").manifest().step == 1);
  damage(run.checkpoints / "step-00000001" / "manifest.json");
  CHECK(contains(data_error([&] { open_checkpoint_at(run.checkpoints / "step-00000001"); }), "manifest.json"));
  damage(run.checkpoints / "step-00000002" / "index.h5");
  constexpr auto kAll = Checkpoint::Verify::everything;
  CHECK(contains(data_error([&] { open_checkpoint_at(run.dir.path, kAll, Older::allowed); }), "no good checkpoint"));
  std::filesystem::create_directory(run.dir.path / "empty");
  CHECK(contains(data_error([&] { open_checkpoint_at(run.dir.path / "empty"); }), "empty: holds no checkpoint"));
}

TEST_CASE("the newest checkpoint of a run is used or named as damaged, with an older one") {
  Run run;
  run.save_steps({1, 2, 3});
  std::filesystem::remove(run.checkpoints / "step-00000003" / "index.h5");
  constexpr auto kAll = Checkpoint::Verify::everything;
  const std::string refused = data_error([&] { open_checkpoint_at(run.dir.path); });
  CHECK(contains(refused, "index.h5: is missing"));
  CHECK(contains(refused, "name an older one, such as " + (run.checkpoints / "step-00000002").string()));
  CHECK_FALSE(contains(refused, "--allow-older"));
  CHECK(contains(data_error([&] { open_checkpoint_at(run.dir.path, kAll, Older::refused_without_flag); }),
                 "or add --allow-older"));
  CHECK(open_checkpoint_at(run.dir.path, kAll, Older::allowed).manifest().step == 2);
  damage(run.checkpoints / "step-00000002" / "rank-00000.h5");  // found although a load would only check its tensors
  CHECK(open_checkpoint_at(run.dir.path, Checkpoint::Verify::all_but_tensors, Older::allowed).manifest().step == 1);
}

TEST_CASE("a path without a checkpoint is answered with the checkpoints nearby") {
  Run run;
  run.save_steps({1, 2});
  const std::string step_2 = (run.checkpoints / "step-00000002").string();
  const auto refused = [&](const path& where) { return data_error([&] { open_checkpoint_at(where); }); };
  CHECK(contains(refused(run.checkpoints / "step-00000009"), "step-00000009: no such folder; there are " + step_2));
  CHECK(contains(refused(run.dir.path / "none"), "none: no such folder; there are " + step_2));
  std::filesystem::create_directory(run.dir.path / "runs");
  std::filesystem::rename(run.checkpoints, run.dir.path / "runs" / "first");
  CHECK(contains(refused(run.dir.path / "runs"),
                 "runs: holds no checkpoint; there are " + (run.dir.path / "runs" / "first").string()));
  CHECK_FALSE(contains(refused("/nowhere/at/all"), "there are"));
}

using Names = std::vector<std::string>;

TEST_CASE("retention keeps the last n, every k-th and always the newest") {
  Run run;
  run.save_steps({10, 20, 30, 40, 50});
  apply_retention(run.checkpoints, {0, 0}, kAll);
  CHECK(run.names().size() == 5);
  apply_retention(run.checkpoints, {2, 20}, kAll);
  CHECK(run.names() == Names{"step-00000020", "step-00000040", "step-00000050"});
  apply_retention(run.checkpoints, {1, 0}, kAll);
  CHECK(run.names() == Names{"step-00000050"});
  CHECK(find_latest(run.checkpoints)->manifest().step == 50);
}

TEST_CASE("retention neither counts nor deletes damaged checkpoints") {
  Run run;
  run.save_steps({1, 2, 3, 4});
  std::filesystem::remove(run.checkpoints / "step-00000004" / "index.h5");
  std::filesystem::create_directory(run.checkpoints / "step-00000005");
  std::string text = logged(run.log, [&] { apply_retention(run.checkpoints, {1, 0}, kAll); });
  CHECK(run.names() == Names{"step-00000003", "step-00000004", "step-00000005"});
  CHECK(contains(text, "step-00000004"));
  CHECK(find_latest(run.checkpoints)->manifest().step == 3);
}

TEST_CASE("later checkpoints than the run's last are not counted by retention") {
  Run run;
  run.save_steps({5, 6, 10, 12});
  apply_retention(run.checkpoints, {1, 0}, 6);
  CHECK(run.names() == Names{"step-00000006", "step-00000010", "step-00000012"});
  std::filesystem::rename(run.checkpoints / "step-00000010", run.checkpoints / "step-00000005");  // holds another step
  apply_retention(run.checkpoints, {1, 0}, 6);
  CHECK(run.names() == Names{"step-00000005", "step-00000006", "step-00000012"});
}

TEST_CASE("retention does not follow links") {
  Run run;
  run.save_steps({1, 2});
  std::filesystem::rename(run.checkpoints / "step-00000001", run.dir.path / "backup");
  std::filesystem::create_directory_symlink(run.dir.path / "backup", run.checkpoints / "step-00000001");
  apply_retention(run.checkpoints, {1, 0}, kAll);
  CHECK_NOTHROW(Checkpoint::open(run.dir.path / "backup"));
}

TEST_CASE("retention does not count links") {
  Run run;
  run.save_steps({1, 2, 3});
  std::filesystem::rename(run.checkpoints / "step-00000002", run.dir.path / "backup");
  std::filesystem::create_directory_symlink(run.dir.path / "backup", run.checkpoints / "step-00000002");
  apply_retention(run.checkpoints, {2, 0}, kAll);
  CHECK(run.names() == Names{"step-00000001", "step-00000002", "step-00000003"});
}

TEST_CASE("retention neither counts nor deletes checkpoints of another model") {
  Run run;
  ParamTable other;
  other.add("w", {3, 3}, Partition::replicated(), {});
  State foreign(other);
  save(run.checkpoints, foreign, 2, 1);
  run.save_steps({1, 3, 4});
  apply_retention(run.checkpoints, {2, 0}, kAll);
  CHECK(run.names() == Names{"step-00000002", "step-00000003", "step-00000004"});
}

TEST_CASE("checkpoints that do not verify are named and those of another model are not") {
  Run run;
  ParamTable other;
  other.add("w", {3, 3}, Partition::replicated(), {});
  State foreign(other);
  run.save_steps({1, 2});
  save(run.checkpoints, foreign, 3, 1);
  damage(run.checkpoints / "step-00000002" / "config.yaml");
  DamagedCheckpoints damaged;
  const auto latest = find_latest(run.checkpoints, &run.state.table, Checkpoint::Verify::all_but_tensors, {}, &damaged);
  CHECK(latest->manifest().step == 1);
  REQUIRE(damaged.size() == 1);
  CHECK(damaged.begin()->first == run.checkpoints / "step-00000002");
  CHECK(contains(damaged.begin()->second, "config.yaml"));
}

TEST_CASE("leftovers of a killed run are removed, and nothing else") {
  Run run;
  run.save_steps({1, 2, 3});
  const auto hide = [&](const char* from, const char* to) {
    std::filesystem::rename(run.checkpoints / from, run.checkpoints / to);
  };
  hide("step-00000001", ".trash-step-00000001");
  hide("step-00000002", ".replaced-step-00000002");
  std::filesystem::create_directory(run.checkpoints / ".tmp-step-00000004");
  write_text(run.checkpoints / ".tmp-step-00000004" / "rank-00000.h5", "half");
  std::filesystem::create_directory(run.checkpoints / ".tmp-notes");
  write_text(run.checkpoints / ".tmp-step-00000005", "a file of that name");
  clean_leftovers(run.checkpoints);
  CHECK(run.names() == Names{".tmp-notes", ".tmp-step-00000005", "step-00000002", "step-00000003"});

  // The new checkpoint of a replacement is visible: the old one is deleted.
  save(run.checkpoints, run.state, 4, 1);
  hide("step-00000002", ".replaced-step-00000004");
  clean_leftovers(run.checkpoints);
  CHECK(run.names() == Names{".tmp-notes", ".tmp-step-00000005", "step-00000003", "step-00000004"});
}

TEST_CASE("saving a step again replaces its checkpoint") {
  Run run;
  run.save_steps({1, 2});
  save(run.checkpoints, run.state, 2, 77);
  CHECK(run.names() == Names{"step-00000001", "step-00000002"});
  load_checkpoint(run.checkpoints / "step-00000002", run.state.store, *run.state.ops);
  CHECK(run.state.wrong(77) == 0);
}

TEST_CASE("anything but a checkpoint of this model is set aside, never deleted") {
  Run run;
  std::filesystem::create_directories(run.checkpoints / "step-00000001");
  write_text(run.checkpoints / "step-00000001" / "precious", "data");
  const std::string text = logged(run.log, [&] { run.save_steps({1}); });
  CHECK(run.names() == Names{"step-00000001", "step-00000001.aside-1"});
  CHECK(read_file(run.checkpoints / "step-00000001.aside-1" / "precious") == "data");
  CHECK(contains(text, "renamed to step-00000001.aside-1"));
  std::filesystem::remove(run.checkpoints / "step-00000001" / "index.h5");
  run.save_steps({1});
  CHECK(run.names() == Names{"step-00000001", "step-00000001.aside-1", "step-00000001.aside-2"});
  damage(run.checkpoints / "step-00000001" / "config.yaml");  // its size is right
  run.save_steps({1});
  CHECK(run.names().size() == 4);
}

TEST_CASE("a checkpoint of a later format stops the search and is not skipped") {
  Run run;
  run.save_steps({1, 2});
  make_newer(run.checkpoints / "step-00000002");
  CHECK_THROWS_AS(find_latest(run.checkpoints), NewerFormatError);
  CHECK(find_latest(run.checkpoints, nullptr, Checkpoint::Verify::sizes, {run.checkpoints / "step-00000002"})
            ->manifest()
            .step == 1);
  run.save_steps({3});
  CHECK(find_latest(run.checkpoints)->manifest().step == 3);
  save(run.checkpoints, run.state, 2, 9);  // in the way, and not ours to delete
  CHECK(run.names() == Names{"step-00000001", "step-00000002", "step-00000002.aside-1", "step-00000003"});
}

TEST_CASE("a checkpoint that was set aside no longer counts as one") {
  Run run;
  run.save_steps({1, 2});
  CHECK(set_aside(run.checkpoints / "step-00000002").filename() == "step-00000002.aside-1");
  CHECK(find_latest(run.checkpoints)->manifest().step == 1);
}

TEST_CASE("a run that has lost its lease makes nothing visible and removes nothing") {
  Run run;
  run.save_steps({1});
  const Lease lease(lease_file(run.dir.path));
  SaveOptions options;
  options.lease = &lease;
  const auto save_step = [&](int64_t step) {
    save_checkpoint(run.checkpoints, run.state.store, *run.state.ops, some_state(step), options);
  };
  save_step(2);
  // Lost while the last file of a save is written.
  storage::set_hook([&](storage::Step step, const path& file) {
    if (step == storage::Step::create_file && file.filename() == "manifest.json")
      write_text(lease_file(run.dir.path), to_text(LeaseHolder{"another", "node2", "", "", 1, 1, ""}));
  });
  CHECK_THROWS_AS(save_step(3), LeaseLost);
  storage::set_hook({});
  CHECK(run.names() == Names{".tmp-step-00000003", "step-00000001", "step-00000002"});
  CHECK_THROWS_AS(save_step(4), LeaseLost);
  CHECK(run.names() == Names{".tmp-step-00000003", "step-00000001", "step-00000002"});
}

}  // namespace
}  // namespace fp::test
