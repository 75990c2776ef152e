// One function per subcommand: it adds the subcommand with its flags to the app and sets its callback.
// A callback throws UserError for the user's mistakes; main() prints it and exits with its code.
#pragma once

#include "base/error.h"
#include "command_line.h"

namespace fp {

// Each subcommand's callback leaves the exit code here (ok unless it says otherwise).
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
// import and export, under the checkpoint command.
void add_checkpoint_transfer_commands(cli::App& checkpoint);
void add_report_command(cli::App& app, CommandResult& result);

}  // namespace fp
