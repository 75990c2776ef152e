#include "bench.h"
#include "config/load.h"
#include "ranks.h"

namespace fp {

void add_model_options(cli::App& command, BenchModel& model) {
  command.add_option("--preset", model.preset, "model preset")->capture_default_str();
  command.add_option("--set", model.sets, "section.key=value, over the preset; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--batch", model.batch, "samples per step")->capture_default_str()->check(cli::PositiveNumber);
  command.add_option("--seq-len", model.seq_len, "tokens per sample")
      ->capture_default_str()
      ->check(cli::PositiveNumber);
  command.add_option("--precision", model.precision)->capture_default_str()->check(cli::IsMember({"bf16", "fp32"}));
}

RunSpec bench_spec(const BenchModel& m) {
  std::vector<std::string> sets = {fmt::format("data.seq_len={}", m.seq_len),
                                   fmt::format("train.global_batch={}", m.batch),
                                   fmt::format("train.micro_batch={}", m.batch), "precision.compute=" + m.precision};
  sets.insert(sets.end(), m.sets.begin(), m.sets.end());
  RunSpec spec = parse_run_spec("model: {preset: " + m.preset + "}", "", sets);
  if (spec.model.vocab == 0) spec.model.vocab = 50257;
  if (spec.train.objective == Objective::dpo)
    throw ConfigError(
        "--set train.objective=dpo: benchmarks have no scores of a reference model; legal: pretrain, sft");
  return spec;
}

void add_bench_command(cli::App& app, CommandResult& result) {
  cli::App* bench = app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  add_bench_ops(*bench);
  add_bench_train(*bench);
  add_bench_offload(*bench);
  add_bench_overlap(*bench);
  add_bench_io(*bench);
  for (cli::App* command : bench->get_subcommands())
    command->preparse_callback([command](size_t) { require_one_rank("bench " + command->get_name()); });
  add_bench_schedule(*bench, result);
  add_bench_machine(*bench, result);
}

}  // namespace fp
