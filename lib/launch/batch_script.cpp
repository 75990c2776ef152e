#include "launch/batch_script.h"

#include <string_view>

#include "base/error.h"

namespace fp {
namespace {

constexpr std::string_view kHead =
    R"(#!/usr/bin/env bash
# Trains as a Slurm job that saves before its time is up, goes back to the queue, and goes on where it stopped.
# Written by fptrain submit; docs/slurm.md tells how it works.
)";

constexpr std::string_view kBody = R"(
# Slurm's signal to this script is for the ranks: they finish their step, save, and end with 75.
pid=""
asked=false
trap 'asked=true; [ -z "$pid" ] || kill -USR1 "$pid" || true' USR1
"${launch[@]}" "${train[@]}" &
pid=$!
if $asked; then kill -USR1 "$pid" || true; fi
code=0
while true; do
  wait "$pid" && code=0 || code=$?  # interrupted where a signal arrives
  kill -0 "$pid" 2>/dev/null || break
done
wait "$pid" && code=0 || code=$?
)";

constexpr std::string_view kRequeue = R"(
# 75: saved and interrupted. 138: ended by the signal before it was listened for. Any other code has a reason that a
# restart does not mend.
if [ "$code" -eq 75 ] || [ "$code" -eq 138 ]; then
  echo "fptrain: the job goes back to the queue"
  scontrol requeue "$SLURM_JOB_ID" || echo "fptrain: it could not be requeued; submit it again to go on" >&2
fi
)";

// A value in an #SBATCH line, as sbatch reads these: quotes group, a backslash takes the next character as it is.
std::string sbatch_word(const std::string& value) {
  if (value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") ==
      std::string::npos)
    return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

void require_one_line(const std::string& what, const std::string& value) {
  if (value.find_first_of("\n\r") != std::string::npos)
    throw ConfigError(fmt::format("{} has a line break, which sbatch cannot read: '{}'", what, value));
}

class Options {
 public:
  void add(const std::string& name, const std::string& value) {
    if (value.empty()) return;
    require_one_line("--" + name, value);
    text_ += fmt::format("#SBATCH --{}={}\n", name, sbatch_word(value));
  }
  void add(const std::string& name, int value) {
    if (value > 0) add(name, std::to_string(value));
  }
  void line(const std::string& option) {
    require_one_line("--sbatch-option", option);
    text_ += "#SBATCH " + option + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool by_srun(const BatchJob& j) { return j.launcher == "srun"; }

std::string options(const BatchJob& j) {
  Options o;
  o.add("job-name", j.name);
  o.add("output", j.output);
  o.line("--open-mode=append");
  o.add("chdir", j.directory);
  o.add("partition", j.partition);
  o.add("account", j.account);
  o.add("qos", j.qos);
  o.add("time", j.time);
  if (j.min_nodes == j.max_nodes) {
    o.add("nodes", j.min_nodes);
    o.add("ntasks-per-node", j.ranks_per_node);
  } else {
    // Were tasks named, Slurm would count those of the fewest nodes, and give no more nodes than that.
    o.add("nodes", fmt::format("{}-{}", j.min_nodes, j.max_nodes));
    o.add("mincpus", j.ranks_per_node * std::max(1, j.cpus_per_rank));
  }
  o.add("cpus-per-task", j.cpus_per_rank);
  o.add("gpus-per-node", j.gpus_per_node);
  // mpirun is in the batch script, which hands the signal on; srun's ranks are signalled by Slurm.
  if (j.signal_before > 0) o.add("signal", fmt::format("{}USR1@{}", by_srun(j) ? "" : "B:", j.signal_before));
  o.line(j.requeue ? "--requeue" : "--no-requeue");
  for (const std::string& more : j.options) o.line(more);
  return o.text();
}

std::string launch(const BatchJob& j) {
  std::string text = fmt::format("\nnodes=$SLURM_JOB_NUM_NODES\nranks=$((nodes * {}))\n", j.ranks_per_node);
  if (by_srun(j)) {
    // Since 22.05 srun does not take it over from sbatch. Ranks end each other: srun must not kill those that save.
    if (j.cpus_per_rank > 0) text += fmt::format("export SRUN_CPUS_PER_TASK={}\n", j.cpus_per_rank);
    text += fmt::format(
        "launch=(srun --mpi=pmix --nodes=\"$nodes\" --ntasks=\"$ranks\" --ntasks-per-node={} --kill-on-bad-exit=0)\n",
        j.ranks_per_node);
  } else {
    text += fmt::format("launch=({} -np \"$ranks\" --map-by ppr:{}:node --bind-to none)\n", shell_word(j.launcher),
                        j.ranks_per_node);
  }
  text += fmt::format("train=({} train", shell_word(j.program));
  for (const std::string& argument : j.train) text += " " + shell_word(argument);
  return text + ")\necho \"fptrain: start ${SLURM_RESTART_COUNT:-0} of job $SLURM_JOB_ID, $ranks ranks on " +
         "$SLURM_JOB_NODELIST\"\n";
}

}  // namespace

std::string shell_word(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") ==
          std::string::npos)
    return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string batch_script(const BatchJob& j) {
  return fmt::format("{}{}set -euo pipefail\n{}{}{}exit \"$code\"\n", kHead, options(j), launch(j), kBody,
                     j.requeue ? kRequeue : "");
}

}  // namespace fp
