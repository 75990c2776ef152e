// The benchmarks under `fptrain bench`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "config/run_spec.h"

namespace fp {

// The model and the batch of a benchmark, as given on the command line.
struct BenchModel {
  std::string preset = "gpt2", precision = "bf16";
  std::vector<std::string> sets;
  int64_t batch = 4, seq_len = 256;
};

void add_model_options(CLI::App& command, BenchModel&);
RunSpec bench_spec(const BenchModel&);

void add_bench_ops(CLI::App& bench);
void add_bench_train(CLI::App& bench);
void add_bench_io(CLI::App& bench);
void add_bench_schedule(CLI::App& bench, CommandResult&);
void add_bench_machine(CLI::App& bench, CommandResult&);  // comm and all

}  // namespace fp
