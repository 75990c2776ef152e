#include "train/together.h"

#include <cstring>

#include "checkpoint/folder.h"
#include "launch/placement.h"
#include "train/resume.h"

namespace fp {
namespace {

// What a rank came to, as text: "0 result", or "CODE message" of the error it met.
template <class Work>
std::string outcome_of(const Work& work) {
  try {
    return "0 " + work();
  } catch (const CommError&) {
    throw;
  } catch (const UserError& e) {
    return fmt::format("{} {}", static_cast<int>(e.code()), e.what());
  }
}

// The result, or the error as an exception of its kind.
std::string result_of(const std::string& outcome) {
  const auto code = static_cast<ExitCode>(std::stoi(outcome));
  const std::string text = outcome.substr(outcome.find(' ') + 1);
  if (code == ExitCode::ok) return text;
  if (code == ExitCode::bad_config) throw ConfigError(text);
  if (code == ExitCode::bad_data) throw DataError(text);
  throw UserError(code, text);
}

}  // namespace

std::string on_rank_0(Group& world, const std::function<std::string()>& work) {
  return result_of(world.broadcast(world.rank() == 0 ? outcome_of(work) : std::string(), 0));
}

std::optional<Checkpoint> choose_checkpoint(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                            const ParamTable& table, Group& world) {
  std::optional<Checkpoint> chosen;
  const std::string folder = on_rank_0(world, [&] {
    chosen = checkpoint_to_resume(resume, checkpoints_dir, table);
    return chosen ? chosen->folder().string() : std::string();
  });
  if (!folder.empty() && !chosen) chosen = Checkpoint::open(folder, Checkpoint::Verify::sizes);
  return chosen;
}

void load_together(const Checkpoint& checkpoint, ParamStore& store, Ops& ops, Group& world) {
  checkpoint.load(store, ops);
  if (world.size() == 1) return;  // compared already
  const Fingerprints mine = fingerprints(store, ops);
  std::string bytes(mine.size() * kStateKinds.size() * sizeof(uint64_t), '\0');
  const auto each = [&](Fingerprints& prints, const auto& visit) {
    size_t at = 0;
    for (KindPrints& kinds : prints)
      for (const StateKind kind : kStateKinds) visit(kinds[kind], std::exchange(at, at + sizeof(uint64_t)));
  };
  Fingerprints sums = mine;
  each(sums, [&](const uint64_t& print, size_t at) { std::memcpy(bytes.data() + at, &print, sizeof print); });
  const std::vector<std::string> all = world.all_gather(bytes);
  each(sums, [&](uint64_t& sum, size_t at) {
    sum = 0;
    for (const std::string& of_rank : all) {
      uint64_t print = 0;
      std::memcpy(&print, of_rank.data() + at, sizeof print);
      sum += print;
    }
  });
  check_fingerprints(checkpoint, store.table(), sums);
}

std::filesystem::path save_together(const std::filesystem::path& checkpoints_dir, const ParamStore& store, Ops& ops,
                                    const TrainState& state, const SaveOptions& options, Group& world) {
  const std::filesystem::path hidden =
      on_rank_0(world, [&] { return begin_save(checkpoints_dir, state.step).string(); });
  try {
    const std::vector<std::string> outcomes = world.all_gather(outcome_of([&] {
      const CheckpointFile f = write_rank_file(hidden, store, ops, options.rank);
      return fmt::format("{} {} {}", f.bytes, f.xxh3, f.name);
    }));
    std::vector<CheckpointFile> files;
    for (size_t r = 0; r < outcomes.size(); ++r) {
      const std::string record = result_of(outcomes[r]);
      const size_t first = record.find(' '), second = record.find(' ', first + 1);
      files.push_back({record.substr(second + 1), std::stoull(record.substr(0, first)),
                       record.substr(first + 1, second - first - 1)});
    }
    return on_rank_0(world, [&] { return finish_save(hidden, files, state, options).string(); });
  } catch (const CommError&) {
    throw;
  } catch (const UserError& e) {
    if (world.rank() == 0) abandon_save(hidden);
    world.barrier();  // what the others throw may end rank 0
    throw DataError(fmt::format("checkpoint of step {} not saved (earlier ones are intact): {}", state.step, e.what()));
  }
}

void require_fit_together(const Prediction& p, const Ops& device, Group& world) {
  const std::string shared = host_name() + " " + device.device_id();  // whose memory it is
  const std::vector<std::string> all = world.all_gather(fmt::format("{} {}", p.device_bytes(), shared));
  size_t bytes = 0;
  int sharers = 0;
  for (const std::string& of_rank : all) {
    const size_t space = of_rank.find(' ');
    if (of_rank.substr(space + 1) != shared) continue;
    bytes += std::stoull(of_rank.substr(0, space));
    ++sharers;
  }
  const std::vector<std::string> verdicts = world.all_gather(outcome_of([&] {
    require_fit(bytes, device, sharers);
    return std::string();
  }));
  for (const std::string& verdict : verdicts) result_of(verdict);
}

}  // namespace fp
