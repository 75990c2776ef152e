#include "train/coordination.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/log.h"
#include "checkpoint/folder.h"
#include "dryrun/device_reserve.h"
#include "dryrun/memory_watch.h"
#include "io/filesystem.h"
#include "io/json.h"
#include "io/retry.h"
#include "launch/placement.h"
#include "train/resume.h"

namespace fp {

RankResult result_of_rank(Group& world, int whose, const RankResult& mine) {
  try {
    RankResult result = RankResult::parse(world.broadcast(mine.serialize(), whose));
    result.value();
    return result;
  } catch (UserError& e) {
    if (world.rank() != whose && e.code() == ExitCode::infrastructure) e.blame_another_rank();
    throw;
  }
}

void throw_on_all_ranks(Group& world, const RankResult& mine) {
  int failed = world.lowest_with(mine.code == ExitCode::infrastructure);
  if (failed < 0) failed = world.lowest_with(!mine.ok());
  if (failed >= 0) result_of_rank(world, failed, mine);
}

std::string on_rank_0(Group& world, const std::function<std::string()>& work) {
  return result_of_rank(world, 0, world.rank() == 0 ? run_and_catch(work) : RankResult()).text;
}

namespace {

// Returns the result of `work` on this rank, or throws on all ranks when any fails.
std::string alone_unless_any_fails(Group& world, const std::function<std::string()>& work) {
  const auto where = [&] {
    return world.size() == 1 ? std::string() : fmt::format("rank {} on {}: ", world.rank(), host_name());
  };
  const RankResult mine = run_and_catch([&] {
    try {
      return work();
    } catch (const CommError&) {
      throw;
    } catch (const AccessError& e) {  // whether a file is valid is for rank 0 to decide
      if (world.rank() == 0) throw DataError(where() + e.what(), e.code());
      throw InfrastructureError(where() + e.what());
    } catch (const DataError& e) {
      throw DataError(where() + e.what(), e.code());
    } catch (const UserError& e) {
      throw UserError(e.code(), where() + e.what());
    }
  });
  throw_on_all_ranks(world, mine);
  return mine.value();
}

// Like on_all_ranks, for work without a result.
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
                                            const std::set<std::filesystem::path>& skip, DamagedCheckpoints& damaged) {
  std::optional<Checkpoint> chosen;
  const std::string folder = on_rank_0(world, [&] {
    chosen = checkpoint_to_resume(resume, checkpoints_dir, table, skip, damaged);
    return chosen ? chosen->folder().string() : std::string();
  });
  if (folder.empty()) return chosen;
  do_on_all_ranks(world, [&] {
    if (!chosen) chosen = Checkpoint::open(folder, Checkpoint::Verify::manifest);
  });
  if (!chosen->needs_hdf5() || !lies_in(chosen->folder(), checkpoints_dir)) return chosen;
  chosen->allow_hdf5();
  if (world.rank() == 0)
    log::warning(
        "{}: was saved by a version of fptrain that did not write {}; HDF5 reads it, because this is the run's own "
        "folder",
        chosen->folder().string(), CheckpointManifest::kTableName);
  return chosen;
}

TrainState state_on_all_ranks(const Checkpoint& checkpoint, Group& world) {
  TrainState state = checkpoint.position();
  on_rank_0(world, [&] {
    state = checkpoint.state();
    return std::string();
  });
  return state;
}

namespace {

// Compares the fingerprints summed over all ranks with the saved ones. A single rank has done so while loading.
// `weights_only`: nothing but the parameters themselves was loaded.
void prove(const Checkpoint& checkpoint, const ParamTable& table, Fingerprints prints, bool weights_only,
           Group& world) {
  if (world.size() == 1) return;
  const bool sent = checkpoint.stores_sent_weights(table), errors = checkpoint.stores_errors(table);
  const auto each = [&](const auto& visit) {
    for (size_t i = 0; i < prints.size(); ++i)
      for (const int slot : weights_only ? std::vector{kParamSlot} : table.slots_of(static_cast<ParamId>(i)))
        if ((slot != table.weights_slot() || sent) && (!table.is_error(slot) || errors))
          visit(prints[i][table.slot_name(slot)]);
  };
  std::vector<uint64_t> flat;
  each([&](uint64_t print) { flat.push_back(print); });
  world.all_reduce(std::span(flat));
  auto sum = flat.begin();
  each([&](uint64_t& print) { print = *sum++; });
  on_rank_0(world, [&] {
    check_fingerprints(checkpoint, table, prints);
    return std::string();
  });
}

}  // namespace

void load_on_all_ranks(const Checkpoint& checkpoint, ParamStore& store, Ops& ops, Group& world) {
  Fingerprints mine;
  if (world.rank() == 0 && store.table().error_slot() >= 0 && !checkpoint.stores_errors(store.table()))
    log::info(
        "{} was saved with another number of nodes or ranks, or without communication.error_feedback: the errors of "
        "quantized sums that are kept begin at 0",
        checkpoint.folder().string());
  do_on_all_ranks(world, [&] { mine = checkpoint.load(store, ops); });
  prove(checkpoint, store.table(), std::move(mine), false, world);
}

std::optional<LoadDamage> load_or_find_damage(const Checkpoint& checkpoint, ParamStore& store, Ops& ops, Group& world) {
  for (bool again = false;; again = true) {
    try {
      load_on_all_ranks(checkpoint, store, ops, world);
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

WeightSource open_on_all_ranks(const std::string& key, const std::filesystem::path& path, Group& world) {
  std::optional<WeightSource> source;
  const std::string found = on_rank_0(world, [&] {
    try {
      return source.emplace(path).path().string();
    } catch (const AccessError&) {
      throw;
    } catch (const DataError& e) {
      throw DataError(fmt::format("{}: {}", key, e.what()));
    }
  });
  do_on_all_ranks(world, [&] {
    if (!source) source.emplace(found, Checkpoint::Verify::manifest);
  });
  return *std::move(source);
}

void load_on_all_ranks(const WeightSource& source, ParamStore& store, Ops& ops, Group& world) {
  Fingerprints mine;
  do_on_all_ranks(world, [&] { mine = source.load(store, ops); });
  if (source.checkpoint()) prove(*source.checkpoint(), store.table(), std::move(mine), true, world);
}

std::string gather_memory_report(const MemoryPeaks& m, Group& world) {
  const std::vector<std::string> all = world.gather(nlohmann::json{
      {"rank", world.rank()},
      {"predicted_arena", m.predicted_arena},
      {"arena_peak", m.arena_peak},
      {"predicted_resident", m.predicted_resident},
      {"resident_peak", m.resident_peak},
      {"predicted_host_arena", m.predicted_host_arena},
      {"host_arena_peak", m.host_arena_peak}}.dump());
  if (world.rank() != 0) return {};
  std::string text;
  for (const std::string& of_rank : all) text += (text.empty() ? "[" : ",\n ") + of_rank;
  return text + "]\n";
}

void require_fit_on_host(const HostNeed& need, int64_t available, const std::string& host) {
  const size_t all = need.staging + need.offloaded;
  if (available <= 0 || all <= static_cast<size_t>(available)) return;
  const auto space = static_cast<size_t>(available);
  const auto gib = [](size_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  std::string parts, fixes;
  const auto add = [](std::string& list, const std::string& separator, const std::string& item) {
    list += (list.empty() ? "" : separator) + item;
  };
  if (need.offloaded > 0) add(parts, ", ", fmt::format("{:.2f} for offloaded tensors", gib(need.offloaded)));
  if (need.staging > 0) add(parts, ", ", fmt::format("{:.2f} for saves beside training", gib(need.staging)));
  if (need.staging > 0 && need.offloaded <= space) add(fixes, "; ", std::string(kSpareStaging));
  if (need.offloaded > 0 && need.staging <= space)
    add(fixes, "; ",
        "host memory suffices with memory.offload.optimizer=none, memory.offload.weights=none and "
        "memory.offload.activations=none, which keep all tensors on the device");
  if (const size_t fit = space / (all / static_cast<size_t>(need.ranks)); fit > 0)
    add(fixes, "; ", fmt::format("it suffices for {} rank{} of this run on a node", fit, fit == 1 ? "" : "s"));
  throw ConfigError(
      fmt::format("the {} rank{} of {} need {:.2f} GiB of its host memory ({}), {:.2f} GiB are available{}", need.ranks,
                  need.ranks == 1 ? "" : "s", host, gib(all), parts, gib(space), fixes.empty() ? "" : "; " + fixes));
}

void require_fit_on_all_ranks(const Prediction& p, const MemorySection& budget, const Ops& device, Group& world,
                              const std::function<std::string()>& advice) {
  const std::string host = host_name(), shared = host + " " + device.device_id();  // identifies the memory
  HostNeed on_host;
  MemoryNeed need{0, 0, 0};
  for (const std::string& text : world.all_gather(
           nlohmann::json{p.device_bytes(), p.staging_bytes, host, shared, p.reserved_bytes, p.offloaded_bytes}
               .dump())) {
    const nlohmann::json of_rank = parse_json(text, "the memory of a rank", kJsonOfRanks);
    if (of_rank[2] == host) {
      on_host.staging += of_rank[1].get<size_t>();
      on_host.offloaded += of_rank[5].get<size_t>();
      ++on_host.ranks;
    }
    if (of_rank[3] != shared) continue;
    need.bytes += of_rank[0].get<size_t>();
    need.reserved += of_rank[4].get<size_t>();
    ++need.sharers;
  }
  // NCCL refuses two ranks on one GPU, so their tensors travel through host memory.
  if (need.sharers > 1 && !p.on_host) need.reserved = static_cast<size_t>(need.sharers) * device_reserve({});
  need.bytes += need.reserved;
  const RankResult verdict = run_and_catch([&] {
    require_fit(p, need, device);
    if (!p.on_host) require_fit_on_host(on_host, MemoryWatch::available_on_host(on_host.ranks), host);
    require_within_budget(p, on_host.staging + on_host.offloaded, budget);
    return std::string();
  });
  try {
    throw_on_all_ranks(world, verdict);
  } catch (const ConfigError& e) {
    if (!advice) throw;
    throw ConfigError(fmt::format("{}; {}", e.what(), on_rank_0(world, advice)));
  }
}

std::string differing_attention(const Prediction& p, int pipeline_rank, Group& world) {
  const std::vector<std::string> ranks = world.all_gather(
      nlohmann::json{pipeline_rank, fmt::format("{}", fmt::join(p.attention, "; ")), host_name()}.dump());
  std::map<int, std::pair<size_t, std::string>> first;  // by pipeline rank: a rank, and its attention
  size_t differing = 0;
  std::string text;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const nlohmann::json of_rank = parse_json(ranks[rank], "the attention of a rank", kJsonOfRanks);
    const auto attention = of_rank[1].get<std::string>();
    const auto [at, is_first] = first.try_emplace(of_rank[0].get<int>(), rank, attention);
    if (is_first || at->second.second == attention) continue;
    if (differing++ == 0)
      text = fmt::format("attention is run by {} on rank {} (host {}), but by {} on rank {}", attention, rank,
                         of_rank[2].get<std::string>(), at->second.second, at->second.first);
  }
  if (differing > 1) text += fmt::format(", and {} more ranks differ", differing - 1);
  return differing == 0 ? "" : text + ": every step waits for the slower ones";
}

}  // namespace fp
