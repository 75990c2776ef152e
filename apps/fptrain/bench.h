// The subcommands of `fptrain bench`.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "config/run_spec.h"

namespace fp {

// Model and batch of a benchmark, as given on the command line.
struct BenchModel {
  std::string preset = "gpt2", precision = "bf16";
  std::vector<std::string> sets;
  int64_t batch = 4, seq_len = 256;
};

void add_model_options(cli::App& command, BenchModel&);
// Returns the resolved and checked run spec of a benchmark.
RunSpec bench_spec(const BenchModel&);

void add_bench_ops(cli::App& bench);
void add_bench_train(cli::App& bench);
void add_bench_offload(cli::App& bench);
void add_bench_overlap(cli::App& bench);
void add_bench_io(cli::App& bench);
void add_bench_schedule(cli::App& bench, CommandResult&);
void add_bench_machine(cli::App& bench, CommandResult&);  // adds the subcommands `comm` and `all`

}  // namespace fp
