#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "base/log.h"
#include "commands.h"
#include "config/load.h"
#include "data/sampling/epochs.h"
#include "dryrun/memory_watch.h"
#include "hdf5_flag.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "launch/early_stop.h"
#include "launch/fault.h"
#include "measure_machine.h"
#include "planning.h"
#include "ranks.h"
#include "train/agreement.h"
#include "train/coordination.h"
#include "train/permissions.h"
#include "train/restarts.h"
#include "train/trainer.h"

namespace fp {
namespace {

// Rank 0 plans for all ranks, since clusters that ranks measure may differ.
void plan_together(Ranks& ranks, TrainRequest& request, const std::function<ClusterSpec()>& cluster) {
  const auto decide = [&](int size) {
    return to_text(plan_training(request.spec, size, cluster(), request.resume != "none"));
  };
  const Planned planned = planned_from_text(ranks.decide(decide));
  if (planned.plan) request.spec = with_plan(std::move(request.spec), *planned.plan);
  request.forecast = planned.forecast;
}

// A run spec as one rank sees it. Errors are values (train/rank_result.h), since an error on one rank must end all.
struct SpecOfRank {
  RankResult text;  // of the file
  RankResult read;  // whether the text is a legal spec, which is in the request then
};

// Resolves the spec in `text`, that of the file on some rank.
RankResult resolve_spec(TrainRequest& request, const std::string& text, const std::string& file,
                        const std::vector<std::string>& sets) {
  return run_and_catch([&] {
    try {
      RunSpec spec = load_run_spec(text, file, sets);
      validate_for_training(spec);
      spec = with_steps_of_data(std::move(spec));
      apply_permissions(spec);
      check_and_record_start(spec, log::rank() == 0);
      request.spec = std::move(spec);
    } catch (const std::filesystem::filesystem_error& e) {
      throw DataError(message_of(e), exit_code_of(e.code().value()));
    }
    return std::string();
  });
}

SpecOfRank read_spec(TrainRequest& request, const std::string& file, const std::vector<std::string>& sets) {
  const RankResult text = run_and_catch([&] {
    try {
      return read_run_spec(file);
    } catch (const std::filesystem::filesystem_error& e) {
      throw DataError(message_of(e), exit_code_of(e.code().value()));
    }
  });
  return {text, text.ok() ? resolve_spec(request, text.text, file, sets) : text};
}

// The text of rank 0 counts: a network file system may show an older one on other nodes.
void use_text_of_rank_0(Ranks& ranks, SpecOfRank& mine, TrainRequest& request, const std::string& file,
                        const std::vector<std::string>& sets) {
  const RankResult of_rank_0 = RankResult::parse(ranks.all_ranks().broadcast(mine.text.serialize(), 0));
  if (!of_rank_0.ok() || (mine.text.ok() && mine.text.text == of_rank_0.text)) return;
  log::warning("{}: this rank sees another content than rank 0 does; that of rank 0 is used", file);
  mine.read = resolve_spec(request, of_rank_0.text, file, sets);
}

Facts facts_of(const TrainRequest& request, bool hdf5) {
  const auto given = [](bool flag) { return flag ? "given" : "not given"; };
  Facts facts{
      {"--resume", request.resume}, {"--allow-data-change", given(request.allow_data_change)}, {"--hdf5", given(hdf5)}};
  for (auto& fact : facts_of(request.spec)) facts.push_back(std::move(fact));
  return facts;
}

// Returns the free memory, to which reserved_gib is added: the contexts of these ranks have already taken it.
double free_gib(const Ops& ops, const ClusterSpec& cluster, int ranks_of_host) {
  const int64_t bytes = MemoryWatch::available(ops, ranks_of_host);
  if (bytes <= 0) return cluster.memory_gib;
  return static_cast<double>(bytes) / (1 << 30) + cluster.reserved_gib * (ops.device_memory() ? 1 : ranks_of_host);
}

// Returns the write rate of all nodes of this run, in bytes per second.
double save_rate(const ClusterSpec& cluster, Ranks& ranks) {
  const int on_host = ranks.on_this_host(), nodes = (ranks.world().size() + on_host - 1) / on_host;
  return cluster.disk_gb_per_s * 1e9 * nodes;
}

ClusterSpec measure_quickly(Ops& ops, Ranks& ranks) {
  log::info(
      "parallel.auto without parallel.cluster: measuring this machine, which takes some seconds (half a minute at most "
      "on a busy one, of which less is measured). To avoid it, name a file of `fptrain bench all --write-cluster FILE` "
      "in parallel.cluster");
  const auto start = std::chrono::steady_clock::now();
  ClusterSpec cluster = measure_machine(ops, ranks.world(), ranks.all_ranks(), true).cluster;
  log::info("measured in {:.1f} s; planning",
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return cluster;
}

// Checked early, before work that takes long, and only by the rank that creates the folders.
void require_run_directory(const RunSpec& spec) {
  const std::filesystem::path directory = spec.run.directory;
  require_folder_possible(directory, "the run directory");
  require_folder_possible(directory / "checkpoints", "the folder of checkpoints");
}

}  // namespace

void add_train_command(cli::App& app, CommandResult& result) {
  struct TrainArguments {
    std::string file, resume = "auto";
    std::vector<std::string> sets;
    bool allow_data_change = false, allow_faults = false;
    Hdf5Flag hdf5;
  };
  const auto a = std::make_shared<TrainArguments>();
  cli::App* command = app.add_subcommand("train", "Train the model of a run spec, or resume where it stopped");
  command->add_option("RUN.yaml", a->file, "run spec (YAML)")->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option(
          "--resume", a->resume,
          "auto: from the newest good checkpoint, if any; none: start from scratch; or the path of a checkpoint")
      ->capture_default_str();
  command->add_flag("--allow-data-change", a->allow_data_change,
                    "resume even if the data, its order or the seed have changed");
  command->add_flag("--allow-faults", a->allow_faults,
                    "inject the fault of FPTRAIN_FAULT, to test failures (docs/clusters.md)");
  a->hdf5.add_to(*command,
                 "let HDF5 read older checkpoints given by --resume PATH or model.init_from, which have no index.bin; "
                 "use it only for files that you trust, as HDF5 parses them");
  command->callback([a, &result] {
    if (a->allow_faults) allow_faults();
    check_fault_request();
    a->hdf5.apply();
    EarlyStop early;  // handles stop signals during set-up, which may take minutes
    Ranks ranks;
    TrainRequest request{{}, a->resume, a->allow_data_change, FPTRAIN_VERSION};
    SpecOfRank spec = read_spec(request, a->file, a->sets);
    if (ranks.alone()) spec.read.value();
    ranks.note_suspects_in(request.spec.run.directory);
    ranks.join(request.spec.watchdog);
    result.code = ranks.run([&] {
      if (!ranks.alone()) use_text_of_rank_0(ranks, spec, request, a->file, a->sets);
      ranks.require_same(facts_of(request, a->hdf5.given()), spec.read);
      const bool planned = !request.spec.parallel.cluster.empty();
      const bool measures = !request.spec.parallel.open.empty() && !planned;
      if (planned) plan_together(ranks, request, [&] { return *cluster_for(request.spec); });
      if (measures)
        ranks.arrange_for_measuring();
      else
        ranks.arrange(request.spec);
      if (log::rank() == 0) require_run_directory(request.spec);
      Ops& ops = ranks.open_device(request.spec);
      if (measures) {
        ClusterSpec cluster = measure_quickly(ops, ranks);
        cluster.memory_gib = std::min(cluster.memory_gib, free_gib(ops, cluster, ranks.on_this_host()));
        plan_together(ranks, request, [&] { return cluster; });
        ranks.arrange(request.spec);
      }
      request.spec.parallel.node_size = ranks.node_size();
      if (planned && log::rank() == 0) request.save_bytes_per_s = save_rate(*cluster_for(request.spec), ranks);
      const auto counting = make_counting_ops(&ops);
      if (!ranks.alone()) request.on_failure = [&] { ranks.fail(); };
      request.advice = [&] {
        const int size = ranks.mesh().size();
        return nearest_here(with_vocab_of_data(request.spec), size, ranks.on_this_host(), ops);
      };
      const ExitCode code = run_training(request, ops, *counting, ranks.world(), ranks.mesh());
      early.ignore_signals();
      return code;
    });
  });
}

}  // namespace fp
