#include "train/restarts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "io/filesystem.h"
#include "io/json_numbers.h"
#include "train/permissions.h"

namespace fp {
namespace {

constexpr size_t kRemembered = 50;
constexpr int kWithoutProgress = 2;  // starts without progress before another is refused

struct Start {
  std::string job;
  int64_t restarts = 0;
  FirstStep step;
};

struct Restarts {
  std::vector<Start> starts;
  std::optional<RecordedSave> save;
};

Restarts restarts_from(const nlohmann::json& json) {
  Restarts r;
  for (const auto& j : json.at("starts")) {
    const auto& step = j.at("step");
    r.starts.push_back({j.at("job"), integer_from<int64_t>(j.at("restarts"), "restarts"),
                        step.is_null() ? FirstStep() : integer_from<int64_t>(step, "step")});
  }
  if (json.contains("save_s")) r.save.emplace(RecordedSave{json["save_s"].get<double>(), {}});
  if (r.save && json.contains("save_ranks")) r.save->ranks = integer_from<int>(json["save_ranks"], "save_ranks", 1);
  return r;
}

// Whether this process also writes the file.
enum class Access { read, write };

// A broken file counts as empty; a process that writes it sets it aside.
Restarts set_aside_and_reset(const std::filesystem::path& file, Access access, const std::exception& e) {
  if (access == Access::write)
    log::warning("{}: broken; it is kept as {}, and a new one begins: {}", file.string(),
                 set_aside_broken(file).filename().string(), e.what());
  return {};
}

// Returns nullopt when there is a file that cannot be read.
std::optional<Restarts> read(const std::filesystem::path& file, Access access) {
  try {
    try {
      return std::filesystem::exists(file) ? restarts_from(read_json(file)) : Restarts();
    } catch (const JsonError& e) {
      return set_aside_and_reset(file, access, e);
    } catch (const nlohmann::json::exception& e) {
      return set_aside_and_reset(file, access, e);
    }
  } catch (const UserError& e) {
    log::warning("{}", e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    log::warning("{}", e.what());
  }
  return {};
}

void write(const std::filesystem::path& file, const Restarts& r) {
  std::string text;
  for (const Start& s : r.starts) {
    nlohmann::ordered_json j = {{"job", s.job}, {"restarts", s.restarts}, {"step", nullptr}};
    if (s.step) j["step"] = *s.step;
    text += (text.empty() ? "" : ",\n  ") + j.dump();
  }
  std::string save = r.save ? fmt::format("\"save_s\": {:.3f},\n", r.save->seconds) : "";
  if (r.save && r.save->ranks) save += fmt::format("\"save_ranks\": {},\n", *r.save->ranks);
  try {
    write_file_atomically(file, fmt::format("{{{}\"starts\": [\n  {}]}}\n", save, text));
  } catch (const DataError& e) {
    log::warning("cannot write the record for the next start of this job: {}", e.what());
  }
}

// Returns the number of starts directly before this one that made no progress.
int starts_without_progress(const std::vector<Start>& starts, const SlurmJob& job, FirstStep step) {
  int count = 0;
  for (int64_t start = job.restarts - 1; start >= 0; --start, ++count)
    if (std::none_of(starts.begin(), starts.end(), [&](const Start& s) {
          return s.job == job.id && s.restarts == start && (!s.step || s.step == step);
        }))
      break;
  return count;
}

}  // namespace

void require_progress(const std::filesystem::path& file, const SlurmJob& job, FirstStep step) {
  const std::optional<Restarts> known = read(file, Access::read);
  if (!known || starts_without_progress(known->starts, job, step) < kWithoutProgress) return;
  const std::string what = step ? fmt::format("this is start {} in a row from step {}", kWithoutProgress + 1, *step)
                                : fmt::format("the last {} starts did not get through set-up", kWithoutProgress);
  throw ConfigError(fmt::format(
      "Slurm job {} makes no progress: it was requeued {} times, and {}. Give it more time (--time), save more often "
      "(checkpoint.every), stop later (checkpoint.time_margin_s), or make a step smaller (train.global_batch); then "
      "submit it again",
      job.id, job.restarts, what));
}

void record_start(const std::filesystem::path& file, const SlurmJob& job, FirstStep step) {
  std::optional<Restarts> r = read(file, Access::write);
  if (!r) return;
  std::vector<Start>& starts = r->starts;
  const auto of_this_start = [&](const Start& s) { return s.job == job.id && s.restarts == job.restarts; };
  if (!step && std::any_of(starts.begin(), starts.end(), of_this_start)) return;  // a second srun in one script
  std::erase_if(starts, [&](const Start& s) { return s.job == job.id && s.restarts >= job.restarts; });
  starts.push_back({job.id, job.restarts, step});
  if (starts.size() > kRemembered) starts.erase(starts.begin(), starts.end() - kRemembered);
  write(file, *r);
}

void check_and_record_start(const RunSpec& spec, bool leads) {
  const std::optional<SlurmJob> job = slurm_job();
  if (!job) return;
  const std::filesystem::path directory = spec.run.directory, file = directory / "restarts.json";
  require_progress(file, *job, {});
  if (!leads) return;
  try {
    make_run_folder(spec, directory);
    const Lease lease(lease_file(directory), Lease::Patience::none);
    record_start(file, *job, {});
  } catch (const InfrastructureError&) {  // counts as a start without progress, whoever seems to hold the folder
    record_start(file, *job, {});
  } catch (const FolderInUse& e) {  // an earlier start of this job that was killed on another node counts, too
    if (e.job == job->id) record_start(file, *job, {});
  } catch (const UserError&) {                          // another run owns this folder and the file
  } catch (const std::filesystem::filesystem_error&) {  // set-up will report the error
  }
}

void check_and_record_step(const RunSpec& spec, const SlurmJob& job, int64_t step) {
  const std::filesystem::path file = std::filesystem::path(spec.run.directory) / "restarts.json";
  if (step < spec.train.steps) require_progress(file, job, step);  // otherwise no step is left to do
  record_start(file, job, step);
}

void record_save(const std::filesystem::path& file, const RecordedSave& save) {
  std::optional<Restarts> r = read(file, Access::write);
  if (!r) return;
  r->save = save;
  write(file, *r);
}

std::optional<RecordedSave> last_save(const std::filesystem::path& file) {
  const std::optional<Restarts> r = read(file, Access::read);
  return r ? r->save : std::nullopt;
}

}  // namespace fp
