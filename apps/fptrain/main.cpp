#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <thread>

#include "base/filesystem.h"
#include "base/log.h"
#include "commands.h"
#include "ranks.h"

namespace {

// Before ranks can talk to each other they all meet the same mistake: rank 0 names it, and its end is theirs.
void let_rank_0_speak() {
  if (fp::log::rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(5));
}

// The stacks of threads count whole against `ulimit -d`, used or not; by default each has 8 MiB.
void use_smaller_stacks() {
  constexpr size_t kStack = size_t{2} << 20;
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

}  // namespace

int main(int argc, char** argv) {
  use_smaller_stacks();
  // Under `ulimit -f` a save that grows too long must fail as on a full disk, not kill the run.
  std::signal(SIGXFSZ, SIG_IGN);
  fp::cli::App app{"fptrain: an LLM trainer driven by config files"};
  app.set_version_flag("--version", FPTRAIN_VERSION);
  app.require_subcommand(1);
  fp::CommandResult result;
  try {
    fp::know_rank();
    // One line per subcommand, in the order of the help text.
    fp::add_train_command(app, result);
    fp::add_submit_command(app, result);
    fp::add_plan_command(app, result);
    fp::add_schedule_command(app, result);
    fp::add_generate_command(app, result);
    fp::add_eval_command(app, result);
    fp::add_probe_command(app, result);
    fp::add_config_command(app, result);
    fp::add_data_command(app, result);
    fp::add_report_command(app, result);
    fp::add_checkpoint_command(app, result);
    fp::add_bench_command(app, result);
    fp::add_doctor_command(app, result);
    // Several ranks train; bench says itself what they may do; doctor may be asked about every node of a job.
    const std::set<std::string> of_ranks = {"train", "bench", "doctor"};
    for (fp::cli::App* command : app.get_subcommands())
      if (!of_ranks.contains(command->get_name()))
        command->preparse_callback([command](size_t) { fp::require_one_rank(command->get_name()); });
    app.parse(argc, argv);
    return static_cast<int>(result.code);
  } catch (const fp::cli::Ended& e) {
    if (e.is_mistake) let_rank_0_speak();
    if (e.is_mistake || fp::log::rank() == 0) e.say();
    return static_cast<int>(e.is_mistake ? fp::ExitCode::bad_config : fp::ExitCode::ok);
  } catch (const fp::UserError& e) {
    let_rank_0_speak();
    fp::log::error("{}", e.what());
    return static_cast<int>(e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    let_rank_0_speak();
    fp::log::error("{}", fp::message_of(e));
    return static_cast<int>(fp::exit_code_of(e.code().value()));
  } catch (const std::exception& e) {
    fp::log::error("internal error, please report it: {}", e.what());
    return 1;
  }
}
