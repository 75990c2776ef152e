#include "train/together.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "base/filesystem.h"
#include "base/log.h"
#include "base/retry.h"
#include "checkpoint/folder.h"
#include "launch/placement.h"
#include "train/device_reserve.h"
#include "train/memory_watch.h"
#include "train/resume.h"

namespace fp {

std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return "0 " + work();
  } catch (const CommError&) {
    throw;
  } catch (const UserError& e) {
    const bool of_data = e.code() == ExitCode::infrastructure && dynamic_cast<const DataError*>(&e) != nullptr;
    return fmt::format("{}{} {}", static_cast<int>(e.code()), of_data ? "d" : "", e.what());
  }
}

std::string result_of(const std::string& outcome) {
  const auto code = static_cast<ExitCode>(std::stoi(outcome));
  const std::string text = outcome.substr(outcome.find(' ') + 1);
  if (code == ExitCode::ok) return text;
  if (code == ExitCode::bad_config) throw ConfigError(text);
  if (code == ExitCode::bad_data) throw DataError(text);
  if (outcome.substr(0, outcome.find(' ')).ends_with('d')) throw DataError(text, code);
  if (code == ExitCode::infrastructure) throw InfrastructureError(text);
  throw UserError(code, text);
}

namespace {

// The result of rank `whose`, or its error, on all ranks.
std::string result_of_rank(Group& world, int whose, const std::string& outcome) {
  try {
    return result_of(world.broadcast(outcome, whose));
  } catch (UserError& e) {
    if (world.rank() != whose && e.code() == ExitCode::infrastructure) e.blame_another_rank();
    throw;
  }
}

}  // namespace

void fail_together(Group& world, const std::string& outcome) {
  int failed = world.lowest_with(outcome.starts_with(fmt::format("{}", static_cast<int>(ExitCode::infrastructure))));
  if (failed < 0) failed = world.lowest_with(!outcome.starts_with("0 "));
  if (failed >= 0) result_of_rank(world, failed, outcome);
}

std::string on_rank_0(Group& world, const std::function<std::string()>& work) {
  return result_of_rank(world, 0, world.rank() == 0 ? outcome_of(work) : std::string());
}

namespace {

// What `work` comes to on this rank, if no rank fails.
std::string alone_unless_any_fails(Group& world, const std::function<std::string()>& work) {
  const auto where = [&] {
    return world.size() == 1 ? std::string() : fmt::format("rank {} on {}: ", world.rank(), host_name());
  };
  const std::string outcome = outcome_of([&] {
    try {
      return work();
    } catch (const CommError&) {
      throw;
    } catch (const AccessError& e) {  // the files are rank 0's to judge
      if (world.rank() == 0) throw DataError(where() + e.what(), e.code());
      throw InfrastructureError(where() + e.what());
    } catch (const DataError& e) {
      throw DataError(where() + e.what(), e.code());
    } catch (const UserError& e) {
      throw UserError(e.code(), where() + e.what());
    }
  });
  fail_together(world, outcome);
  return result_of(outcome);
}

// Where only an error matters.
void do_on_all_ranks(Group& world, const std::function<void()>& work) {
  alone_unless_any_fails(world, [&] {
    work();
    return std::string();
  });
}

}  // namespace

std::vector<std::string> on_all_ranks(Group& world, const std::function<std::string()>& work) {
  return world.all_gather(alone_unless_any_fails(world, work));
}

std::optional<Checkpoint> choose_checkpoint(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                            const ParamTable& table, Group& world,
                                            const std::set<std::filesystem::path>& passed) {
  std::optional<Checkpoint> chosen;
  const std::string folder = on_rank_0(world, [&] {
    chosen = checkpoint_to_resume(resume, checkpoints_dir, table, passed);
    return chosen ? chosen->folder().string() : std::string();
  });
  if (folder.empty()) return chosen;
  do_on_all_ranks(world, [&] {
    if (!chosen) chosen = Checkpoint::open(folder, Checkpoint::Verify::manifest);
  });
  return chosen;
}

TrainState state_together(const Checkpoint& checkpoint, Group& world) {
  TrainState state = checkpoint.position();
  on_rank_0(world, [&] {
    state = checkpoint.state();
    return std::string();
  });
  return state;
}

namespace {

// Compares what all ranks own, taken together, with what was saved. One rank alone has done so.
void prove(const Checkpoint& checkpoint, const ParamTable& table, Fingerprints prints, std::span<const StateKind> kinds,
           Group& world) {
  if (world.size() == 1) return;
  std::vector<uint64_t> flat;
  for (KindPrints& of_param : prints)
    for (const StateKind kind : kinds) flat.push_back(of_param[kind]);
  world.all_reduce(std::span(flat));
  auto sum = flat.begin();
  for (KindPrints& of_param : prints)
    for (const StateKind kind : kinds) of_param[kind] = *sum++;
  on_rank_0(world, [&] {
    check_fingerprints(checkpoint, table, prints);
    return std::string();
  });
}

}  // namespace

void load_together(const Checkpoint& checkpoint, ParamStore& store, Ops& ops, Group& world) {
  Fingerprints mine;
  do_on_all_ranks(world, [&] { mine = checkpoint.load(store, ops); });
  prove(checkpoint, store.table(), std::move(mine), kStateKinds, world);
}

std::optional<LoadDamage> load_or_find_damage(const Checkpoint& checkpoint, ParamStore& store, Ops& ops, Group& world) {
  for (bool again = false;; again = true) {
    try {
      load_together(checkpoint, store, ops, world);
      return {};
    } catch (const DataError& e) {
      const std::string damage = on_rank_0(world, [&] {
        try {
          Checkpoint::open(checkpoint.folder());
        } catch (const AccessError&) {
          throw;
        } catch (const DataError& d) {
          return std::string(d.what());
        }
        return std::string();
      });
      if (!damage.empty()) return LoadDamage{damage, false};
      if (again) return LoadDamage{e.what(), true};
      if (world.rank() == 0)
        log::warning("{}\nbut its files are what was saved, as rank 0 sees them: loading once more", e.what());
    }
  }
}

WeightSource open_together(const std::filesystem::path& path, Group& world) {
  std::optional<WeightSource> source;
  const std::string found = on_rank_0(world, [&] { return source.emplace(path).path().string(); });
  do_on_all_ranks(world, [&] {
    if (!source) source.emplace(found, Checkpoint::Verify::manifest);
  });
  return *std::move(source);
}

void load_together(const WeightSource& source, ParamStore& store, Ops& ops, Group& world) {
  Fingerprints mine;
  do_on_all_ranks(world, [&] { mine = source.load(store, ops); });
  constexpr std::array kWeights = {StateKind::param};
  if (source.checkpoint()) prove(*source.checkpoint(), store.table(), std::move(mine), kWeights, world);
}

std::string memory_text_together(const MemoryTaken& m, Group& world) {
  const std::vector<std::string> all = world.gather(nlohmann::json{
      {"rank", world.rank()},
      {"predicted_arena", m.predicted_arena},
      {"arena_peak", m.arena_peak},
      {"predicted_resident", m.predicted_resident},
      {"resident_peak", m.resident_peak}}.dump());
  if (world.rank() != 0) return {};
  std::string text;
  for (const std::string& of_rank : all) text += (text.empty() ? "[" : ",\n ") + of_rank;
  return text + "]\n";
}

namespace {

// The ranks of a host that are on GPUs, against its memory: what their saves pass through.
void require_staging(const Prediction& p, size_t of_host, int ranks) {
  const int64_t available = MemoryWatch::available_on_host(ranks);
  if (p.on_host || available <= 0 || of_host <= static_cast<size_t>(available)) return;
  const auto gib = [](auto bytes) { return static_cast<double>(bytes) / (1 << 30); };
  throw ConfigError(
      fmt::format("the saves of all ranks of {} pass through {:.2f} GiB of its host memory, {:.2f} GiB are available; "
                  "set checkpoint.staging_mib (0 = all, here {} MiB a rank), or checkpoint.asynchronous=false",
                  host_name(), gib(of_host), gib(available), p.staging_bytes >> 20));
}

}  // namespace

void require_fit_together(const Prediction& p, const Ops& device, Group& world,
                          const std::function<std::string()>& advice) {
  const std::string host = host_name(), shared = host + " " + device.device_id();  // whose memory it is
  size_t staging = 0;
  int neighbours = 0;
  MemoryNeed need{0, 0, 0};
  for (const std::string& text :
       world.all_gather(nlohmann::json{p.device_bytes(), p.staging_bytes, host, shared, p.reserved_bytes}.dump())) {
    const nlohmann::json of_rank = nlohmann::json::parse(text);
    if (of_rank[2] == host) {
      staging += of_rank[1].get<size_t>();
      ++neighbours;
    }
    if (of_rank[3] != shared) continue;
    need.bytes += of_rank[0].get<size_t>();
    need.reserved += of_rank[4].get<size_t>();
    ++need.sharers;
  }
  // NCCL takes no two ranks of one GPU: their tensors travel through host memory.
  if (need.sharers > 1 && !p.on_host) need.reserved = static_cast<size_t>(need.sharers) * device_reserve({});
  need.bytes += need.reserved;
  const std::string verdict = outcome_of([&] {
    require_fit(p, need, device);
    require_staging(p, staging, neighbours);
    return std::string();
  });
  try {
    fail_together(world, verdict);
  } catch (const ConfigError& e) {
    if (!advice) throw;
    throw ConfigError(fmt::format("{}; {}", e.what(), on_rank_0(world, advice)));
  }
}

}  // namespace fp
