#include "launch/batch_script.h"

#include <string_view>

#include "base/error.h"

namespace fp {
namespace {

constexpr std::string_view kHeader =
    R"sh(#!/usr/bin/env bash
# Trains as a Slurm job that saves before its time limit, is requeued, and resumes where it stopped.
# Written by fptrain submit; docs/slurm.md tells how it works.
)sh";

constexpr std::string_view kBody = R"sh(
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
)sh";

constexpr std::string_view kRequeue = R"sh(
# 75: saved and interrupted. 76: a node, a GPU, the network or the file system failed. 134 to 139: a signal ended a rank:
# a crash, lack of memory, or a stop signal before its handler was installed. Any other code has a cause that a restart
# does not remove, and so has 136, a division by zero. A run that makes no progress ends with 2.
case "$code" in
  75 | 76 | 134 | 135 | 137 | 138 | 139)
    trap '' TERM  # the script of a requeued job gets SIGTERM, and is killed a while later
    find_suspect || true
    echo "fptrain: the job is requeued"
    if scontrol requeue "$SLURM_JOB_ID"; then
      [ -z "$suspect" ] || leave_out || echo "fptrain: node $suspect could not be excluded" >&2
    else
      echo "fptrain: it could not be requeued; submit it again to continue" >&2
    fi
    ;;
esac
)sh";

// Slurm changes the nodes of a job only while it is pending: after it was requeued and before it starts again, which it
// cannot do while this script runs.
constexpr std::string_view kSuspects = R"sh(
# The suspect node of this start is excluded from the next ones, if enough nodes stay.
suspect=""
left_out=""
find_suspect() {
  local job start node file=%DIRECTORY%/suspect-nodes.txt
  local -A known=()
  [ -r "$file" ] || return 0
  while read -r job start node; do
    [ "$job" = "$SLURM_JOB_ID" ] || continue
    known["$node"]=1
    [ "$start" != "${SLURM_RESTART_COUNT:-0}" ] || suspect=$node
  done <"$file"
  [ -n "$suspect" ] || return 0
  if [ "${#known[@]}" -gt %MOST% ]; then
    echo "fptrain: node $suspect is suspect, but no more than %MOST% may be excluded (fptrain submit --leave-out)"
    suspect=""
    return 0
  fi
  left_out=$(scontrol show job --oneliner "$SLURM_JOB_ID" | sed -n 's/.* ExcNodeList=\([^ ]*\).*/\1/p')
  [ "$left_out" != "(null)" ] || left_out=""
  left_out="${left_out:+$left_out,}$suspect"
  local usable
  usable=$(sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --states=idle,alloc,mix,comp --format=%N | sort -u |
    grep -cvxF -f <(scontrol show hostnames "$left_out")) || true
  if [ "$usable" -lt %MIN_NODES% ]; then
    echo "fptrain: node $suspect is suspect, but without it the job has too few nodes"
    suspect=""
  fi
}
leave_out() {
  scontrol update JobId="$SLURM_JOB_ID" ExcNodeList="$left_out"
  echo "fptrain: node $suspect is suspect and is excluded from now on"
}
)sh";

constexpr std::string_view kNoSuspects = R"sh(
suspect=""
find_suspect() { :; }
leave_out() { :; }
)sh";

std::string replaced(std::string text, std::string_view mark, const std::string& value) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
    text.replace(at, mark.size(), value);
  return text;
}

// Returns the shell functions that exclude suspect nodes.
std::string suspects(const BatchJob& j) {
  if (j.max_excluded_nodes == 0 || j.run_directory.empty()) return std::string(kNoSuspects);
  std::string text = replaced(std::string(kSuspects), "%MOST%", std::to_string(j.max_excluded_nodes));
  text = replaced(text, "%MIN_NODES%", std::to_string(j.min_nodes));
  return replaced(text, "%DIRECTORY%", shell_word(j.run_directory));
}

// Quotes a value for an #SBATCH line: sbatch reads quotes as grouping and a backslash as an escape.
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
    // With --ntasks Slurm would count the tasks of the fewest nodes, and grant no more nodes than that.
    o.add("nodes", fmt::format("{}-{}", j.min_nodes, j.max_nodes));
    o.add("mincpus", j.ranks_per_node * std::max(1, j.cpus_per_rank));
  }
  o.add("cpus-per-task", j.cpus_per_rank);
  o.add("gpus-per-node", j.gpus_per_node);
  // With mpirun the batch script gets the signal and forwards it; with srun Slurm signals the ranks.
  if (j.signal_before > 0) o.add("signal", fmt::format("{}USR1@{}", by_srun(j) ? "" : "B:", j.signal_before));
  o.line(j.requeue ? "--requeue" : "--no-requeue");
  for (const std::string& more : j.options) o.line(more);
  return o.text();
}

std::string launch(const BatchJob& j) {
  std::string text = fmt::format("\nnodes=$SLURM_JOB_NUM_NODES\nranks=$((nodes * {}))\n", j.ranks_per_node);
  if (by_srun(j)) {
    // Since 22.05 srun does not inherit --cpus-per-task. The lifeline ends the ranks: srun must not kill those that
    // save.
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
  const std::string umask = j.umask.empty() ? "" : fmt::format("umask {}  # run.permissions\n", j.umask);
  return fmt::format("{}{}set -euo pipefail\n{}{}{}{}exit \"$code\"\n", kHeader, options(j), umask, launch(j), kBody,
                     j.requeue ? suspects(j) + std::string(kRequeue) : std::string());
}

}  // namespace fp
