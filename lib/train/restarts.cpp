#include "train/restarts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/log.h"
#include "checkpoint/folder.h"

namespace fp {
namespace {

constexpr size_t kRemembered = 50;
constexpr int kInVain = 2;  // lives without progress before another is refused

struct Start {
  std::string job;
  int64_t restarts = 0;
  FirstStep step;
};

struct Restarts {
  std::vector<Start> starts;
  std::optional<double> save_s;
};

Restarts parse(const std::string& text) {
  Restarts r;
  const auto json = nlohmann::json::parse(text);
  for (const auto& j : json.at("starts")) {
    const auto& step = j.at("step");
    r.starts.push_back({j.at("job"), j.at("restarts"), step.is_null() ? FirstStep() : step.get<int64_t>()});
  }
  if (json.contains("save_s")) r.save_s = json["save_s"].get<double>();
  return r;
}

// Whether this process writes the file, too.
enum class Access { read, write };

// Nothing where there is a file that cannot be read; a broken one counts as empty, and who writes it sets it aside.
std::optional<Restarts> read(const std::filesystem::path& file, Access access) {
  try {
    try {
      return std::filesystem::exists(file) ? parse(read_file(file)) : Restarts();
    } catch (const nlohmann::json::exception& e) {
      if (access == Access::read) return Restarts();
      log::warning("{}: broken, kept as {} and begun anew: {}", file.string(),
                   set_aside_broken(file).filename().string(), e.what());
      return Restarts();
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
  const std::string save = r.save_s ? fmt::format("\"save_s\": {:.3f},\n", *r.save_s) : "";
  try {
    write_file_atomically(file, fmt::format("{{{}\"starts\": [\n  {}]}}\n", save, text));
  } catch (const DataError& e) {
    log::warning("what the next start of this job should know is not noted: {}", e.what());
  }
}

// The lives right before this one that gained nothing.
int lives_in_vain(const std::vector<Start>& starts, const SlurmJob& job, FirstStep step) {
  int lives = 0;
  for (int64_t life = job.restarts - 1; life >= 0; --life, ++lives)
    if (std::none_of(starts.begin(), starts.end(), [&](const Start& s) {
          return s.job == job.id && s.restarts == life && (!s.step || s.step == step);
        }))
      break;
  return lives;
}

}  // namespace

void require_progress(const std::filesystem::path& file, const SlurmJob& job, FirstStep step) {
  const std::optional<Restarts> known = read(file, Access::read);
  if (!known || lives_in_vain(known->starts, job, step) < kInVain) return;
  const std::string what = step ? fmt::format("this is start {} in a row from step {}", kInVain + 1, *step)
                                : fmt::format("the last {} starts did not get through set-up", kInVain);
  throw ConfigError(fmt::format(
      "Slurm job {} makes no progress: it was requeued {} times, and {}. Give it more time (--time), save more often "
      "(checkpoint.every), stop later (checkpoint.time_margin_s), or make a step smaller (train.global_batch); then "
      "submit it anew",
      job.id, job.restarts, what));
}

void note_start(const std::filesystem::path& file, const SlurmJob& job, FirstStep step) {
  std::optional<Restarts> r = read(file, Access::write);
  if (!r) return;
  std::vector<Start>& starts = r->starts;
  const auto of_this_life = [&](const Start& s) { return s.job == job.id && s.restarts == job.restarts; };
  if (!step && std::any_of(starts.begin(), starts.end(), of_this_life)) return;  // a second srun in one script
  std::erase_if(starts, [&](const Start& s) { return s.job == job.id && s.restarts >= job.restarts; });
  starts.push_back({job.id, job.restarts, step});
  if (starts.size() > kRemembered) starts.erase(starts.begin(), starts.end() - kRemembered);
  write(file, *r);
}

void begin_life(const RunSpec& spec, bool leads) {
  const std::optional<SlurmJob> job = slurm_job();
  if (!job) return;
  const std::filesystem::path directory = spec.run.directory, file = directory / "restarts.json";
  require_progress(file, *job, {});
  if (!leads) return;
  try {
    std::filesystem::create_directories(directory);
    const Lease lease(lease_file(directory), Lease::Patience::none);
    note_start(file, *job, {});
  } catch (const InfrastructureError&) {  // a start in vain counts, whoever seems to hold the folder
    note_start(file, *job, {});
  } catch (const UserError&) {                          // another run is in this folder: the file is that one's
  } catch (const std::filesystem::filesystem_error&) {  // set-up will say what is wrong with the folder
  }
}

void begin_from(const RunSpec& spec, const SlurmJob& job, int64_t step) {
  const std::filesystem::path file = std::filesystem::path(spec.run.directory) / "restarts.json";
  if (step < spec.train.steps) require_progress(file, job, step);  // else little is left to do
  note_start(file, job, step);
}

void note_save(const std::filesystem::path& file, double seconds) {
  std::optional<Restarts> r = read(file, Access::write);
  if (!r) return;
  r->save_s = seconds;
  write(file, *r);
}

std::optional<double> last_save(const std::filesystem::path& file) {
  const std::optional<Restarts> r = read(file, Access::read);
  return r ? r->save_s : std::nullopt;
}

}  // namespace fp
