// The benchmarks under `fptrain bench`.
#pragma once

#include <CLI/CLI.hpp>

namespace fp {

void add_bench_train(CLI::App& bench);

}  // namespace fp
