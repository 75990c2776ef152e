// fptrain submit: starts a run as a Slurm job that requeues itself.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/log.h"
#include "base/program.h"
#include "base/shown.h"
#include "commands.h"
#include "config/load.h"
#include "data/sampling/epochs.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "job_sizes.h"
#include "launch/batch_script.h"
#include "launch/fault.h"
#include "launch/slurm.h"
#include "planning.h"
#include "train/permissions.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

struct SubmitArguments {
  std::string file, nodes = "1", launcher = "srun";
  std::vector<std::string> sets;
  bool no_requeue = false, dry_run = false, faults = false;
  int signal_before = -1;
  BatchJob job;
};

constexpr int kSignalBefore = 120;  // seconds

int whole_number(const std::string& text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() ? value : 0;
}

void read_nodes(const std::string& text, BatchJob& job) {
  const size_t dash = text.find('-');
  job.min_nodes = job.max_nodes = whole_number(text.substr(0, dash));
  if (dash != std::string::npos) job.max_nodes = whole_number(text.substr(dash + 1));
  if (job.min_nodes < 1 || job.max_nodes < job.min_nodes)
    throw ConfigError(fmt::format("--nodes {}; legal: a number of nodes, or a minimum and a maximum: 4, 1-4", text));
}

// Returns the path of the program for the nodes; in a bundle (scripts/bundle), that of its start script.
std::string this_program(const std::string& name) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const fs::path of_bundle = self.parent_path().parent_path().parent_path() / "bin" / name;
  if (self.parent_path().filename() == "libexec" && fs::exists(of_bundle)) return of_bundle;
  return name == "fptrain" ? self.string() : name;
}

// Escapes percent signs, which sbatch expands in file names.
std::string no_pattern(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

// At most a tenth of the time, so that a short job is not stopped at once.
int default_signal(double time_s) { return static_cast<int>(std::min<double>(kSignalBefore, std::floor(time_s / 10))); }

// With less time than the margin a run would save and end at the first check.
void require_time_for_steps(double time_s, double margin_s, const std::string& time) {
  if (time_s > margin_s) return;
  throw ConfigError(fmt::format(
      "--time {} is {:g} s, but a run saves and ends {:g} s before its time limit (checkpoint.time_margin_s), so each "
      "start would make one step only. Legal: --time {:.0f} or more, or checkpoint.time_margin_s below {:g}",
      time, time_s, margin_s, std::floor(margin_s / 60) + 1, time_s));
}

void read_time(int signal_before, double margin_s, BatchJob& job) {
  const auto time_s = job.time.empty() ? parse_time_limit("UNLIMITED") : parse_time_limit(job.time);
  if (!time_s)
    throw ConfigError(
        fmt::format("--time {}; legal: minutes, MIN:SEC, H:MIN:SEC, D-H, D-H:MIN or D-H:MIN:SEC", job.time));
  job.signal_before = signal_before < 0 ? default_signal(*time_s) : signal_before;
  if (job.signal_before >= *time_s)
    throw ConfigError(fmt::format("--signal-before {} is not less than --time {}; legal: less than {:g} s",
                                  job.signal_before, job.time, *time_s));
  require_time_for_steps(*time_s, margin_s, job.time);
}

BatchJob job_of(const SubmitArguments& a, const RunSpec& spec) {
  BatchJob job = a.job;
  const fs::path directory = fs::absolute(spec.run.directory).lexically_normal();
  job.program = this_program("fptrain");
  job.launcher = a.launcher == "srun" ? a.launcher : this_program("mpirun");
  job.directory = fs::current_path();
  job.run_directory = directory;
  job.train = {fs::absolute(a.file).lexically_normal()};
  for (const std::string& set : a.sets) job.train.insert(job.train.end(), {"--set", set});
  if (a.faults) job.train.emplace_back("--allow-faults");
  job.umask = umask_text(spec);
  job.requeue = !a.no_requeue;
  if (job.name.empty()) job.name = spec.run.name;
  if (job.output.empty()) job.output = no_pattern(directory) + "/slurm-%j.log";
  if (job.gpus_per_node < 0 && spec.run.device == RunDevice::automatic)
    log::info("run.device is auto: the job asks for no GPUs; --set run.device=cuda trains on one GPU per rank");
  if (job.gpus_per_node < 0)
    job.gpus_per_node = spec.run.device == RunDevice::cuda && !spec.parallel.allow_gpu_sharing ? job.ranks_per_node : 0;
  if (spec.run.device == RunDevice::cuda && !spec.parallel.allow_gpu_sharing && job.gpus_per_node > 0 &&
      job.gpus_per_node < job.ranks_per_node)
    throw ConfigError(
        fmt::format("--gpus-per-node {} is less than --ranks-per-node {}; legal: one GPU or more for each "
                    "rank, parallel.allow_gpu_sharing=true, or 0 where another option asks for them",
                    job.gpus_per_node, job.ranks_per_node));
  read_time(a.signal_before, spec.checkpoint.time_margin_s, job);
  for (const std::string& option : job.options)
    if (!option.starts_with('-'))
      throw ConfigError(
          fmt::format("--sbatch-option={}; legal: an option of sbatch, such as --sbatch-option=--mem=64G", option));
  return job;
}

void submit(const RunSpec& spec, const fs::path& directory, const std::string& script) {
  require_folder_possible(directory, "the run directory");
  apply_permissions(spec);  // sbatch passes its umask to the job, with which Slurm creates the job's log
  make_run_folder(spec, directory);
  const fs::path file = directory / "submit.sbatch";
  write_file_atomically(file, script);
  const auto answer = run_program({"sbatch", "--parsable", file.string()}, std::chrono::minutes(2));
  if (!answer)
    throw ConfigError(
        fmt::format("sbatch could not be started, or did not answer within two minutes; submit {} where Slurm "
                    "is: sbatch {}",
                    file.string(), shell_word(file.string())));
  if (answer->code != 0)
    throw ConfigError(fmt::format("sbatch refused {} with code {}:\n{}{}", file.string(), answer->code, answer->errors,
                                  answer->text));
  std::fputs(printable(answer->errors).c_str(), stderr);
  const std::string id = answer->text.substr(0, answer->text.find_first_of(";\n"));
  fmt::print("job {}: {}\n", shown(id), file.string());
}

void run_submit(SubmitArguments& a) {
  if (a.faults) allow_faults();
  check_fault_request();  // sbatch passes the environment on to the job
  RunSpec spec = load_run_spec(a.file, a.sets);
  validate_for_training(spec);
  read_nodes(a.nodes, a.job);
  if (leave_plan_open(spec.parallel, a.job.max_nodes * a.job.ranks_per_node, a.sets))
    spec = load_run_spec(a.file, a.sets);
  spec = with_steps_of_data(std::move(spec));
  const BatchJob job = job_of(a, spec);
  check_sizes(spec, job.min_nodes, job.max_nodes, job.ranks_per_node);
  check_memory(spec, job.min_nodes, job.ranks_per_node);
  const std::string script = batch_script(job);
  const fs::path directory = fs::absolute(spec.run.directory).lexically_normal();
  if (!a.dry_run) return submit(spec, directory, script);
  fmt::print("{}", for_stdout(script));
  if (std::error_code ignored; a.job.output.empty() && !fs::is_directory(directory, ignored))
    log::info("before this is given to sbatch: mkdir -p {}, or Slurm has nowhere to write the log",
              shell_word(directory.string()));
}

void add_job_options(cli::App& command, BatchJob& job) {
  command.add_option("--partition", job.partition, "as for sbatch");
  command.add_option("--account", job.account, "as for sbatch");
  command.add_option("--qos", job.qos, "as for sbatch");
  command.add_option("--time", job.time, "time limit of one start, as for sbatch: 30, 8:00:00, 1-12");
  command.add_option("--job-name", job.name, "default: run.name");
  command.add_option("--output", job.output, "log file of the job; default: slurm-%j.log in the run directory");
  command
      .add_option("--sbatch-option", job.options, "any other option of sbatch: --sbatch-option=--mem=64G; repeatable")
      ->take_all()
      ->allow_extra_args(false);
}

}  // namespace

void add_submit_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<SubmitArguments>();
  a->job.gpus_per_node = -1;
  a->job.max_excluded_nodes = 2;
  cli::App* command = app.add_subcommand(
      "submit",
      "Train as a Slurm job that saves before its time limit, requeues itself and resumes on the ranks it gets");
  command->add_option("RUN.yaml", a->file, "run spec (YAML)")->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--nodes", a->nodes, "number of nodes, or its minimum and maximum: 1-4")->capture_default_str();
  command->add_option("--ranks-per-node", a->job.ranks_per_node, "ranks per node, one per GPU")
      ->capture_default_str()
      ->check(cli::Range(1, 4096));
  command
      ->add_option("--gpus-per-node", a->job.gpus_per_node,
                   "GPUs per node; default: one per rank with run.device cuda, else none")
      ->check(cli::Range(0, 4096));
  command->add_option("--cpus-per-rank", a->job.cpus_per_rank, "cores per rank; default: that of Slurm")
      ->check(cli::Range(1, 4096));
  add_job_options(*command, a->job);
  command->add_option("--launcher", a->launcher, "program that starts the ranks: srun (with PMIx) or mpirun")
      ->capture_default_str()
      ->check(cli::IsMember({"srun", "mpirun"}));
  command
      ->add_option(
          "--signal-before", a->signal_before,
          "seconds before the end of the job at which Slurm signals the ranks to save, if they have not (0: never); "
          "default: 120, or a tenth of --time if that is less")
      ->check(cli::Range(0, 65535));
  command
      ->add_option(
          "--leave-out", a->job.max_excluded_nodes,
          "maximum number of nodes suspected of causing failures that later starts of the job exclude (0: none)")
      ->capture_default_str()
      ->check(cli::Range(0, 1024));
  command->add_flag("--no-requeue", a->no_requeue, "end with code 75 when interrupted, instead of requeueing");
  command->add_flag("--allow-faults", a->faults,
                    "let the job inject the fault of FPTRAIN_FAULT, to test failures (docs/clusters.md)");
  command->add_flag("--dry-run", a->dry_run, "print the batch script and do nothing else");
  command->callback([a] { run_submit(*a); });
}

}  // namespace fp
