#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "base/filesystem.h"
#include "base/log.h"
#include "base/writable_folder.h"
#include "commands.h"
#include "config/load.h"
#include "launch/early_stop.h"
#include "measure_machine.h"
#include "planning.h"
#include "ranks.h"
#include "train/agreement.h"
#include "train/memory_watch.h"
#include "train/restarts.h"
#include "train/together.h"
#include "train/trainer.h"

namespace fp {
namespace {

// What rank 0 decides; the cluster of the others may be another where it was measured.
void plan_together(Ranks& ranks, TrainRequest& request, const std::function<ClusterSpec()>& cluster) {
  const auto decide = [&](int size) {
    return to_text(plan_training(request.spec, size, cluster(), request.resume != "none"));
  };
  const Planned planned = planned_from_text(ranks.decide(decide));
  request.spec = planned.spec;
  request.forecast = planned.forecast;
}

// What came of it as text (train/together.h), for on a mistake of one rank all have to end.
std::string read_spec(TrainRequest& request, const std::string& file, const std::vector<std::string>& sets) {
  return outcome_of([&] {
    try {
      RunSpec spec = load_run_spec(file, sets);
      validate_for_training(spec);
      begin_life(spec, log::rank() == 0);
      request.spec = std::move(spec);
    } catch (const std::filesystem::filesystem_error& e) {
      throw DataError(message_of(e), exit_code_of(e.code().value()));
    }
    return std::string();
  });
}

Facts facts_of(const TrainRequest& request) {
  Facts facts{{"--resume", request.resume}, {"--allow-data-change", request.allow_data_change ? "given" : "not given"}};
  for (auto& fact : facts_of(request.spec)) facts.push_back(std::move(fact));
  return facts;
}

// What others leave of the memory; what the runtime of ranks takes of it has been taken already.
double free_gib(const Ops& ops, const ClusterSpec& cluster, int ranks_of_host) {
  const int64_t bytes = MemoryWatch::available(ops, ranks_of_host);
  if (bytes <= 0) return cluster.memory_gib;
  return static_cast<double>(bytes) / (1 << 30) + cluster.reserved_gib * (ops.device_memory() ? 1 : ranks_of_host);
}

// Bytes a second that the disks of all nodes of this run take.
double save_rate(const ClusterSpec& cluster, Ranks& ranks) {
  const int on_host = ranks.on_this_host(), nodes = (ranks.world().size() + on_host - 1) / on_host;
  return cluster.disk_gb_per_s * 1e9 * nodes;
}

ClusterSpec measure_quickly(Ops& ops, Ranks& ranks) {
  log::info(
      "parallel.auto without parallel.cluster: measuring this machine, in some seconds; of a busy one less, so that it "
      "takes about half a minute at most. A file of `fptrain bench all --write-cluster FILE`, named in "
      "parallel.cluster, saves that");
  const auto start = std::chrono::steady_clock::now();
  ClusterSpec cluster = measure_machine(ops, ranks.world(), ranks.everybody(), true).cluster;
  log::info("measured in {:.1f} s; planning",
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return cluster;
}

// Before what takes long: of many ranks the one that will make them.
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
    bool allow_data_change = false;
  };
  const auto a = std::make_shared<TrainArguments>();
  cli::App* command = app.add_subcommand("train", "Train the model a run spec describes, or go on where it stopped");
  command->add_option("run", a->file, "run spec (YAML)")->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--resume", a->resume,
                   "auto: the newest good checkpoint, if any; none: start afresh; or the path of a checkpoint")
      ->capture_default_str();
  command->add_flag("--allow-data-change", a->allow_data_change,
                    "resume even if the data, its order or the seed have changed");
  command->callback([a, &result] {
    EarlyStop early;  // of set-up, which may take minutes
    Ranks ranks;
    TrainRequest request{{}, a->resume, a->allow_data_change, FPTRAIN_VERSION};
    const std::string outcome = read_spec(request, a->file, a->sets);
    if (ranks.alone()) result_of(outcome);
    ranks.note_suspects_in(request.spec.run.directory);
    ranks.join(request.spec.watchdog);
    result.code = ranks.run([&] {
      ranks.require_same(facts_of(request), outcome);
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
      if (planned && log::rank() == 0) request.save_bytes_per_s = save_rate(*cluster_for(request.spec), ranks);
      const auto counting = make_counting_ops(&ops);
      if (!ranks.alone()) request.on_failure = [&] { ranks.fail(); };
      request.advice = [&] {
        const int size = ranks.mesh().size();
        return nearest_here(with_vocab_of_data(request.spec), size, ranks.on_this_host(), ops);
      };
      const ExitCode code = run_training(request, ops, *counting, ranks.world(), ranks.mesh());
      early.over();
      return code;
    });
  });
}

}  // namespace fp
