// Subcommands of fptrain. Each function adds one subcommand with its flags to the app and sets its callback. Callbacks
// throw UserError for mistakes of the user; main() prints the error and exits with its code.
#pragma once

#include "base/error.h"
#include "command_line.h"

namespace fp {

// Exit code of the subcommand, set by its callback.
struct CommandResult {
  ExitCode code = ExitCode::ok;
};

void add_train_command(cli::App& app, CommandResult& result);
void add_submit_command(cli::App& app, CommandResult& result);
void add_plan_command(cli::App& app, CommandResult& result);
void add_schedule_command(cli::App& app, CommandResult& result);
void add_generate_command(cli::App& app, CommandResult& result);
void add_eval_command(cli::App& app, CommandResult& result);
void add_probe_command(cli::App& app, CommandResult& result);
void add_config_command(cli::App& app, CommandResult& result);
void add_data_command(cli::App& app, CommandResult& result);
void add_tokenize_commands(cli::App& data);  // tokenize and detokenize, below `data`
void add_checkpoint_command(cli::App& app, CommandResult& result);
void add_bench_command(cli::App& app, CommandResult& result);
void add_doctor_command(cli::App& app, CommandResult& result);
// Adds import and export below `checkpoint`.
void add_checkpoint_transfer_commands(cli::App& checkpoint);
void add_report_command(cli::App& app, CommandResult& result);

}  // namespace fp
