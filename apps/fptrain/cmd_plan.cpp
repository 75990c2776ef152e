// fptrain plan: what a run would need and do, before anything is allocated.
#include <cstdio>

#include "commands.h"
#include "config/load.h"
#include "device.h"
#include "ops/counting.h"
#include "plan/layout.h"
#include "train/dry_run.h"
#include "train/run_data.h"
#include "train/setup.h"

namespace fp {
namespace {

struct Arguments {
  std::string file;
  std::vector<std::string> sets;
  bool explain = false;
  int ranks = 0;
};

// Data are looked at only where the spec leaves the vocabulary to them.
RunSpec read_spec(const Arguments& a) {
  RunSpec spec = load_run_spec(a.file, a.sets, DataFolders::may_be_missing);
  if (spec.model.vocab > 0) return spec;
  spec = load_run_spec(a.file, a.sets);
  spec.model = with_vocab(spec.model, RunData(spec).train().tokenizer().vocab_size());
  return spec;
}

// The ranks the plan is for: as told, or as the degrees multiply to.
int ranks_of(const ParallelSection& p, int told) {
  if (told > 0) return told;
  if (p.data == 0)
    throw ConfigError("parallel.data = 0 takes what the other degrees leave of the ranks: say how many with --ranks N");
  return static_cast<int>(p.pipeline.ranks * p.data * p.sequence * p.tensor);
}

// The rank that needs most: shares that do not divide differ between pipeline, tensor and sequence indices, not between
// data ones.
struct Largest {
  int rank = -1;
  Prediction prediction;
  double of_all = 0;  // bytes of all ranks
};

Largest largest(const RunSpec& spec, CountingOps& counting, const Mesh& mesh) {
  Largest most;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.at(rank).dp != 0) continue;
    const Prediction p = dry_run(spec, spec.model, counting, mesh, rank);
    most.of_all += static_cast<double>(p.device_bytes()) * mesh.dp();
    if (most.rank >= 0 && p.device_bytes() <= most.prediction.device_bytes()) continue;
    most.rank = rank;
    most.prediction = p;
  }
  return most;
}

void run(const Arguments& a) {
  RunSpec spec = read_spec(a);
  const auto ops = open_device(spec.run.device, spec.run.threads);
  const auto counting = make_counting_ops(ops.get());
  const Mesh mesh = arrange(spec, ranks_of(spec.parallel, a.ranks));
  const auto [rank, p, of_all] = largest(spec, *counting, mesh);
  fmt::print("{}\ndevice                {:>12}\n", describe_model(spec.model), ops->name());
  if (mesh.size() > 1)
    fmt::print("ranks                 {:>12}   {}; what follows is of rank {}, which needs most\n", mesh.size(),
               describe(spec.parallel), rank);
  fmt::print("{}", describe(plan_pipeline(spec), step_sizes(spec.train, mesh.dp()).back()));
  fmt::print("{}", describe(p, spec));
  if (mesh.size() > 1 && !ops->device_memory())
    fmt::print("all ranks on one host {:>12.2f} GiB\n", of_all / static_cast<double>(size_t{1} << 30));
  if (a.explain) fmt::print("{}", explain(p));
  std::fflush(stdout);
  require_fit(p.device_bytes(), *ops);
}

}  // namespace

void add_plan_command(CLI::App& app, CommandResult&) {
  const auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("plan", "Say what a run would need and do; ends with 2 where it does not fit");
  command->add_option("run", a->file, "run spec (YAML)")->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--ranks", a->ranks,
                   "ranks the run will have; default: as many as the degrees of `parallel` multiply to")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--explain", a->explain, "also which implementations run, and why others were passed over");
  command->callback([a] { run(*a); });
}

}  // namespace fp
