// The batch script of a training job under Slurm: what `fptrain submit` writes.
#pragma once

#include <string>
#include <vector>

namespace fp {

struct BatchJob {
  std::string program;             // fptrain, on all nodes
  std::vector<std::string> train;  // what follows "fptrain train"
  std::string directory;           // where it runs
  std::string launcher = "srun";   // or mpirun: its name or path
  int min_nodes = 1, max_nodes = 1;
  int ranks_per_node = 1, gpus_per_node = 0, cpus_per_rank = 0;  // 0: not said
  std::string name, output, partition, account, qos, time;       // empty: not said
  bool requeue = true;
  std::string run_directory;         // where a run notes the node that stood out in a failure (launch/suspect.h)
  int most_left_out = 0;             // so many of these nodes are left out of later starts
  int signal_before = 0;             // seconds; 0: no signal
  std::vector<std::string> options;  // further lines for sbatch, "--mem=0"
};

// Ranks are counted when the job starts, so that it runs on whatever Slurm gives it. ConfigError where sbatch could not
// read a value (line breaks).
std::string batch_script(const BatchJob&);

// One word for a shell, whatever is in it.
std::string shell_word(const std::string&);

}  // namespace fp
