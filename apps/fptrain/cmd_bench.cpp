#include "bench.h"
#include "commands.h"

namespace fp {

void add_bench_command(CLI::App& app, CommandResult&) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  add_bench_train(*bench);
}

}  // namespace fp
