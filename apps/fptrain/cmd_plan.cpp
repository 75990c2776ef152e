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
};

// Data are looked at only where the spec leaves the vocabulary to them.
RunSpec read_spec(const Arguments& a) {
  RunSpec spec = load_run_spec(a.file, a.sets, DataFolders::may_be_missing);
  if (spec.model.vocab > 0) return spec;
  spec = load_run_spec(a.file, a.sets);
  spec.model = with_vocab(spec.model, RunData(spec).train().tokenizer().vocab_size());
  return spec;
}

void run(const Arguments& a) {
  RunSpec spec = read_spec(a);
  const auto ops = open_device(spec.run.device, spec.run.threads);
  const auto counting = make_counting_ops(ops.get());
  const ParallelSection& parallel = spec.parallel;
  const int ranks =
      static_cast<int>(parallel.pipeline * std::max<int64_t>(parallel.data, 1) * parallel.sequence * parallel.tensor);
  const Mesh mesh = arrange(spec, ranks);
  const Prediction p = dry_run(spec, spec.model, *counting, mesh);
  fmt::print("{}\ndevice                {:>12}\n{}", describe_model(spec.model), ops->name(), describe(p, spec));
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
  command->add_flag("--explain", a->explain, "also which implementations run, and why others were passed over");
  command->callback([a] { run(*a); });
}

}  // namespace fp
