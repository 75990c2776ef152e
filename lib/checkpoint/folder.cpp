#include "checkpoint/folder.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/log.h"
#include "io/file_status.h"
#include "io/filesystem.h"
#include "io/retry.h"
#include "io/storage.h"

namespace fp {
namespace {

const std::string kTrashPrefix = ".trash-";
const std::string kReplacedPrefix = ".replaced-";
constexpr std::string_view kStepPrefix = "step-";

// Returns the checkpoint name after a hidden prefix; nullopt when the entry is not a folder of that kind.
std::optional<std::string> hidden_name(const std::filesystem::path& entry, const std::string& prefix) {
  const std::string name = entry.filename().string();
  if (!name.starts_with(prefix) || !storage::is_folder(entry)) return std::nullopt;
  const std::string rest = name.substr(prefix.size());
  if (!checkpoint_step(rest)) return std::nullopt;
  return rest;
}

// Deletes a checkpoint folder. After the rename it is no checkpoint any more, even if the deletion is interrupted.
void discard(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path trash = folder.parent_path() / (kTrashPrefix + name);
  if (storage::is_folder(trash)) storage::remove_folder(trash);
  storage::rename(folder, trash);
  storage::remove_folder(trash);
}

void discard_or_warn(const std::filesystem::path& folder, const std::string& name) {
  try {
    discard(folder, name);
  } catch (const UserError& e) {
    log::warning("cannot delete a checkpoint that is no longer needed: {}", e.what());
  }
}

bool same_parameters(const CheckpointManifest& a, const CheckpointManifest& b) {
  return std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                    [](const auto& x, const auto& y) { return x.name == y.name && x.shape == y.shape; });
}

// Returns whether the finished checkpoint in `hidden` may replace `existing`.
bool replaceable(const std::filesystem::path& existing, const std::filesystem::path& hidden) {
  try {
    return storage::is_folder(existing) &&
           same_parameters(Checkpoint::open(existing, Checkpoint::Verify::all_but_tensors).manifest(),
                           read_checkpoint_manifest(hidden));
  } catch (const AccessError&) {
    throw;
  } catch (const DataError&) {
    return false;
  } catch (const NewerFormatError&) {
    return false;
  }
}

// Opens a checkpoint, and once more if it does not verify: a temporary fault of a disk or node must not cost it.
Checkpoint open_twice(const std::filesystem::path& path, Checkpoint::Verify verify) {
  try {
    return Checkpoint::open(path, verify);
  } catch (const AccessError&) {
    throw;
  } catch (const DataError&) {
    return Checkpoint::open(path, verify);
  }
}

// Returns an unused name beside `path`.
std::filesystem::path free_name_beside(const std::filesystem::path& path) {
  for (int i = 1;; ++i) {
    std::filesystem::path aside = path;
    aside += fmt::format(".aside-{}", i);
    if (!lstat_path(aside)) return aside;
  }
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:08d}", kStepPrefix, step); }

std::optional<int64_t> checkpoint_step(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  int64_t step = -1;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

void require_step_of_name(const Checkpoint& c) {
  if (checkpoint_name(c.manifest().step) != c.folder().filename())
    throw DataError(fmt::format("{}: holds step {}", c.folder().string(), c.manifest().step));
}

std::filesystem::path lease_file(const std::filesystem::path& run_directory) { return run_directory / "run.lease"; }

std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& checkpoints_dir) {
  std::vector<std::pair<int64_t, std::filesystem::path>> found;
  for (const std::filesystem::path& entry : storage::entries_of(checkpoints_dir))
    if (const auto step = checkpoint_step(entry.filename().string())) found.emplace_back(*step, entry);
  std::sort(found.rbegin(), found.rend());
  std::vector<std::filesystem::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

bool lies_in(const std::filesystem::path& checkpoint, const std::filesystem::path& checkpoints_dir) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(checkpoint / ".").lexically_normal().parent_path();
  return std::filesystem::equivalent(folder.parent_path(), checkpoints_dir, error) && !error;
}

std::filesystem::path publish(const std::filesystem::path& hidden) {
  const std::string name = hidden.filename().string().substr(kHiddenPrefix.size());
  FP_CHECK(hidden.filename().string().starts_with(kHiddenPrefix) && checkpoint_step(name), "publishes {}",
           hidden.string());
  const std::filesystem::path target = hidden.parent_path() / name;
  const std::filesystem::path replaced = hidden.parent_path() / (kReplacedPrefix + name);
  bool discard_replaced = false;
  if (lstat_path(target)) {
    discard_replaced = replaceable(target, hidden);
    if (discard_replaced)
      storage::rename(target, replaced);
    else
      log::warning("{} is in the way and not a good checkpoint of this model: renamed to {}", target.string(),
                   set_aside(target).filename().string());
  }
  storage::rename(hidden, target);
  if (discard_replaced) discard_or_warn(replaced, name);
  return target;
}

std::filesystem::path set_aside(const std::filesystem::path& checkpoint) {
  const std::filesystem::path aside = free_name_beside(checkpoint);
  storage::rename(checkpoint, aside);
  return aside;
}

void clean_leftovers(const std::filesystem::path& checkpoints_dir) {
  for (const std::filesystem::path& entry : storage::entries_of(checkpoints_dir)) {
    try {
      if (hidden_name(entry, kHiddenPrefix) || hidden_name(entry, kTrashPrefix)) {
        log::info("removing {}, left by a run that was stopped", entry.string());
        storage::remove_folder(entry);
      } else if (const auto name = hidden_name(entry, kReplacedPrefix)) {
        if (path_exists(checkpoints_dir / *name))
          discard(entry, *name);
        else
          storage::rename(entry, checkpoints_dir / *name);
      }
    } catch (const UserError& e) {
      log::warning("cannot clean up: {}", e.what());
    }
  }
}

std::optional<Checkpoint> find_latest(const std::filesystem::path& checkpoints_dir, const ParamTable* table,
                                      Checkpoint::Verify verify, const std::set<std::filesystem::path>& skip,
                                      DamagedCheckpoints* damaged) {
  for (const std::filesystem::path& path : checkpoints_in(checkpoints_dir)) {
    if (skip.contains(path)) continue;
    bool verified = false;
    try {
      Checkpoint checkpoint = open_twice(path, verify);
      require_step_of_name(checkpoint);
      verified = true;
      if (table != nullptr) checkpoint.require(*table);
      return checkpoint;
    } catch (const AccessError&) {
      throw;
    } catch (const DataError& e) {
      log::warning("skipping a checkpoint: {}", e.what());
      if (!verified && damaged != nullptr) damaged->insert_or_assign(path, e.what());
    }
  }
  return std::nullopt;
}

std::filesystem::path checkpoints_folder_at(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path))
    throw DataError(fmt::format("{}: no such folder{}", path.string(), checkpoints_nearby(path)));
  const std::filesystem::path inner = path / "checkpoints";
  return std::filesystem::is_directory(inner) ? inner : path;
}

std::string checkpoints_nearby(const std::filesystem::path& path) {
  constexpr size_t kShown = 5;
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(path, ignored).lexically_normal();
  while (!std::filesystem::is_directory(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  if (folder == folder.root_path()) return "";
  std::vector<std::string> found;
  const auto add = [&](const std::filesystem::path& where) {
    for (const std::filesystem::path& checkpoint : checkpoints_in(where)) found.push_back(checkpoint.string());
  };
  try {
    add(folder);
    if (found.empty()) add(folder / "checkpoints");
    std::vector<std::filesystem::path> runs;
    if (found.empty()) runs = storage::entries_of(folder);
    std::sort(runs.begin(), runs.end());
    for (const std::filesystem::path& run : runs)
      if (storage::is_folder(run) && (!checkpoints_in(run).empty() || !checkpoints_in(run / "checkpoints").empty()))
        found.push_back(run.string());
  } catch (const UserError&) {  // a folder that cannot be read; the caller's error matters more
  }
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i)
    text += fmt::format("{}{}", i == 0 ? "; there are " : ", ", found[i]);
  return found.size() > kShown ? text + ", ..." : text;
}

namespace {

// Opens the newest checkpoint of a folder that has some.
Checkpoint open_newest(const std::filesystem::path& folder, Checkpoint::Verify verify, Older older) {
  const std::vector<std::filesystem::path> all = checkpoints_in(folder);
  try {
    Checkpoint newest = Checkpoint::open(all.front(), verify);
    require_step_of_name(newest);
    return newest;
  } catch (const AccessError&) {
    throw;
  } catch (const DataError& e) {
    throw DataError(e.what() + advice_on_older(all.front(), older));
  }
}

}  // namespace

std::string advice_on_older(const std::filesystem::path& newest, Older older) {
  const std::vector<std::filesystem::path> all = checkpoints_in(newest.parent_path());
  if (all.size() < 2 || all.front() != newest) return "";
  return fmt::format(
      "\nit is the newest checkpoint of its run; name an older one, such as {}{}", all[1].string(),
      older == Older::refused_without_flag ? ", or add --allow-older to use the newest one that is not damaged" : "");
}

Checkpoint open_checkpoint_at(const std::filesystem::path& path, Checkpoint::Verify verify, Older older) {
  const std::filesystem::path folder = checkpoints_folder_at(path);
  std::error_code ignored;
  if (std::filesystem::exists(path / CheckpointManifest::kFileName, ignored)) return Checkpoint::open(path, verify);
  if (checkpoints_in(folder).empty()) {
    if (checkpoint_step(path.filename().string())) return Checkpoint::open(path, verify);
    throw DataError(fmt::format("{}: holds no checkpoint{}", path.string(), checkpoints_nearby(path)));
  }
  if (older != Older::allowed) return open_newest(folder, verify, older);
  // A load could not fall back once it has begun, so every byte is read before.
  if (auto latest = find_latest(folder)) return *std::move(latest);
  throw DataError(fmt::format("{}: holds no good checkpoint", folder.string()));
}

void apply_retention(const std::filesystem::path& checkpoints_dir, const Retention& retention, int64_t newest,
                     const std::set<int64_t>& verified) {
  if (retention.keep_last <= 0) return;
  int64_t complete = 0;
  std::optional<CheckpointManifest> first;
  for (const std::filesystem::path& path : checkpoints_in(checkpoints_dir)) {
    const int64_t step = *checkpoint_step(path.filename().string());
    if (step > newest || !storage::is_folder(path)) continue;  // a link: its target is not ours to delete
    try {
      // The others are deleted because the first one counts, so its content must be verified.
      const bool trusted = complete > 0 || verified.contains(step);
      const Checkpoint c = Checkpoint::open(path, trusted ? Checkpoint::Verify::sizes : Checkpoint::Verify::everything);
      if (c.manifest().step != step) throw DataError(fmt::format("{}: holds another step", path.string()));
      if (first && !same_parameters(*first, c.manifest())) continue;
      if (!first) first = c.manifest();
    } catch (const UserError& e) {
      log::warning("a checkpoint that is damaged or cannot be read is left where it is: {}", e.what());
      continue;
    }
    ++complete;
    const std::string name = path.filename().string();
    const bool milestone = retention.keep_every > 0 && step % retention.keep_every == 0;
    if (complete > retention.keep_last && !milestone) discard_or_warn(path, name);
  }
}

}  // namespace fp
