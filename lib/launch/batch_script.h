// Generates the Slurm batch script of a training job, which `fptrain submit` writes.
#pragma once

#include <string>
#include <vector>

namespace fp {

struct BatchJob {
  std::string program;             // path of fptrain, valid on all nodes
  std::vector<std::string> train;  // arguments after "fptrain train"
  std::string directory;           // working directory
  std::string launcher = "srun";   // or the name or path of mpirun
  int min_nodes = 1, max_nodes = 1;
  int ranks_per_node = 1, gpus_per_node = 0, cpus_per_rank = 0;  // 0: not set
  std::string name, output, partition, account, qos, time;       // empty: not set
  std::string umask;  // umask of the job, "0077"; empty: the one sbatch was called with
  bool requeue = true;
  std::string run_directory;         // where a run records the suspect node of a failure (launch/suspect.h)
  int max_excluded_nodes = 0;        // maximum number of suspect nodes that later starts exclude
  int signal_before = 0;             // seconds before the time limit; 0: no signal
  std::vector<std::string> options;  // further options for sbatch, such as "--mem=0"
};

// Returns the script. The number of ranks is computed when the job starts, so that it runs on whatever allocation Slurm
// grants. Throws ConfigError for a value that sbatch could not read (line breaks).
std::string batch_script(const BatchJob&);

// Quotes any text as a single word for a shell.
std::string shell_word(const std::string&);

}  // namespace fp
