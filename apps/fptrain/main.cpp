#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "base/memory_error.h"
#include "base/parallel.h"
#include "commands.h"
#include "host/machine.h"
#include "io/filesystem.h"
#include "ranks.h"

namespace {

// Before the ranks are connected, all of them find the same error: rank 0 reports it, and its exit ends the others.
void wait_for_rank_0() {
  if (fp::log::rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(5));
}

// Thread stacks count in full against `ulimit -d`, used or not; by default each has 8 MiB.
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
  // Under `ulimit -f` a save that is too large must fail as on a full disk, not kill the run.
  std::signal(SIGXFSZ, SIG_IGN);
  fp::cli::App app{"fptrain: trains language models from YAML run specs"};
  app.set_version_flag("--version", FPTRAIN_VERSION);
  app.require_subcommand(1);
  fp::CommandResult result;
  try {
    fp::set_core_quota(fp::core_quota_of(fp::control_group_limits().cpus));
    fp::configure_log_for_rank();
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
    // train and doctor run on any number of ranks; bench checks for each of its subcommands.
    const std::set<std::string> of_ranks = {"train", "bench", "doctor"};
    for (fp::cli::App* command : app.get_subcommands())
      if (!of_ranks.contains(command->get_name()))
        command->preparse_callback([command](size_t) { fp::require_one_rank(command->get_name()); });
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0)
      throw fp::DataError(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
    if (std::ferror(stdout) != 0) throw fp::DataError("cannot write to standard output: an earlier write failed");
    return static_cast<int>(result.code);
  } catch (const fp::cli::Ended& e) {
    if (e.is_mistake) wait_for_rank_0();
    if (e.is_mistake || fp::log::rank() == 0) e.print();
    return static_cast<int>(e.is_mistake ? fp::ExitCode::bad_config : fp::ExitCode::ok);
  } catch (const fp::UserError& e) {
    wait_for_rank_0();
    fp::log::error("{}", e.what());
    return static_cast<int>(e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    wait_for_rank_0();
    fp::log::error("{}", fp::message_of(e));
    return static_cast<int>(fp::exit_code_of(e.code().value()));
  } catch (const std::system_error& e) {  // standard output that cannot be written, or a thread that cannot be started
    fp::log::error("{}", e.what());
    return static_cast<int>(fp::exit_code_of(e.code().value()));
  } catch (const std::bad_alloc&) {
    fp::log::error("{}", fp::out_of_memory(fmt::format("in `fptrain {}`", argc > 1 ? argv[1] : "")));
    return static_cast<int>(fp::ExitCode::infrastructure);
  } catch (const std::exception& e) {
    fp::log::error("internal error, please report it: {}", e.what());
    return 1;
  }
}
