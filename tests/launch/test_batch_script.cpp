// Runs batch scripts in bash with stand-ins for the launcher and scontrol. scripts/test-slurm checks with real Slurm
// that sbatch reads them and that jobs are requeued.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/program.h"
#include "launch/batch_script.h"
#include "support/process.h"

using namespace fp;
using namespace std::chrono_literals;
using fp::test::TemporaryFolder;

namespace {

BatchJob job(const TemporaryFolder& folder) {
  BatchJob j;
  j.program = "/opt/my tools/fptrain";
  j.train = {"run.yaml", "--set", "run.name=it's"};
  j.directory = "/r";
  j.launcher = folder.path / "mpirun";
  return j;
}

void write_program(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << "#!/bin/bash\n" << text;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
}

// Runs the script with this code as the launcher, and with a scontrol that logs its arguments.
ProgramOutput outcome(const TemporaryFolder& folder, const BatchJob& j, const std::string& launcher,
                      const std::string& scontrol = "echo scontrol \"$@\"\n") {
  write_program(folder.path / "mpirun", launcher);
  write_program(folder.path / "scontrol", scontrol);
  write_program(folder.path / "job", batch_script(j));
  const auto o =
      run_program({"env", "PATH=" + folder.path.string() + ":/usr/bin:/bin", "SLURM_JOB_ID=12", "SLURM_JOB_NUM_NODES=3",
                   "SLURM_JOB_PARTITION=all", "SLURM_JOB_NODELIST=n[1-3]", (folder.path / "job").string()},
                  24h);
  REQUIRE(o);
  return *o;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a batch script starts the ranks of its allocation with unchanged arguments") {
  const TemporaryFolder folder;
  BatchJob j = job(folder);
  j.ranks_per_node = 4;
  j.train = {"a b", "--set", "x='$HOME' \"q\" \\ *"};
  const ProgramOutput o = outcome(folder, j, "printf '<%s>' \"$@\"");
  CHECK(o.code == 0);
  CHECK(has(o.text, "<-np><12><--map-by><ppr:4:node>"));
  CHECK(has(o.text, "</opt/my tools/fptrain><train><a b><--set><x='$HOME' \"q\" \\ *>"));
}

TEST_CASE("a batch script requeues only runs that a restart can continue") {
  const TemporaryFolder folder;
  BatchJob j = job(folder);
  j.requeue = GENERATE(true, false);
  for (const int code : {0, 1, 2, 3, 4, 75, 76, 130, 132, 134, 135, 136, 137, 138, 139, 143}) {
    const ProgramOutput o = outcome(folder, j, "exit " + std::to_string(code));
    CAPTURE(code, j.requeue, o.text, o.errors);
    CHECK(o.code == code);
    CHECK(has(o.text, "scontrol requeue 12") ==
          (j.requeue && (code == 75 || code == 76 || (code >= 134 && code <= 139 && code != 136))));
  }
}

TEST_CASE("a batch script excludes the suspect node within limits") {
  const TemporaryFolder folder;
  BatchJob j = job(folder);
  j.min_nodes = 2;
  j.max_excluded_nodes = 2;
  j.run_directory = folder.path / "a run's";
  std::filesystem::create_directory(j.run_directory);
  write_program(folder.path / "sinfo", "printf 'n1\\nn2\\nn3\\nn4\\n'\n");
  const std::string scontrol =
      "case \"$1 $2\" in 'show job') echo 'JobId=12 ReqNodeList=(null) ExcNodeList=EXCLUDED Features=(null)';;\n"
      "'show hostnames') tr , '\\n' <<<\"$3\";;\n*) echo scontrol \"$@\";; esac\n";
  struct Case {
    std::string suspects, excluded, expected, said;
  };
  const std::vector<Case> cases = {
      {"", "(null)", "", ""},
      {"12 0 n3\n", "(null)", "n3", "node n3 is suspect and is excluded"},
      {"12 0 n3\n", "n1", "n1,n3", "node n3 is suspect and is excluded"},  // the user's, and ours
      {"11 0 n2\n12 3 n2\n", "(null)", "", ""},                            // another job's, another start's
      {"12 7 n1\n12 5 n2\n12 0 n3\n", "(null)", "", "no more than 2 may be excluded"},
      {"12 0 n3\n", "n1,n2", "", "too few nodes"}};
  for (const Case& c : cases) {
    CAPTURE(c.suspects, c.excluded);
    std::ofstream(std::filesystem::path(j.run_directory) / "suspect-nodes.txt") << c.suspects;
    std::string tool = scontrol;
    tool.replace(tool.find("EXCLUDED"), 8, c.excluded);
    const ProgramOutput o = outcome(folder, j, "exit 76", tool);
    CAPTURE(o.text, o.errors);
    CHECK(o.code == 76);
    const size_t requeued = o.text.find("scontrol requeue 12"), update = o.text.find("scontrol update");
    CHECK(requeued != std::string::npos);
    CHECK((update == std::string::npos) == c.expected.empty());
    if (!c.expected.empty()) {
      CHECK(requeued < update);
      CHECK(has(o.text, "scontrol update JobId=12 ExcNodeList=" + c.expected + "\n"));
    }
    CHECK(has(o.text, c.said));
  }
}

TEST_CASE("a batch script forwards the signal and waits for the ranks to end") {
  const TemporaryFolder folder;
  // The ranks signal the script's process, which is their parent, twice, and are slow to save.
  const ProgramOutput o = outcome(folder, job(folder),
                                  "times=0; trap 'times=$((times + 1)); echo heard' USR1\n"
                                  "kill -USR1 $PPID; until [ $times = 1 ]; do sleep 0.01; done\n"
                                  "kill -USR1 $PPID; until [ $times = 2 ]; do sleep 0.01; done\n"
                                  "echo saved\nexit 75\n");
  CAPTURE(o.text, o.errors);
  CHECK(o.code == 75);
  CHECK(has(o.text, "heard\nheard\nsaved\n"));
  CHECK(has(o.text, "scontrol requeue 12"));
}

TEST_CASE("sbatch options stand at the top of the script and are quoted as sbatch reads them") {
  const TemporaryFolder folder;
  BatchJob j = job(folder);
  j.launcher = "srun";
  j.name = "my run";
  j.output = "/r/a \"b\"/slurm-%j.log";
  j.time = "1-12";
  j.signal_before = 60;
  j.cpus_per_rank = 8;
  j.options = {"--mem=0"};
  j.min_nodes = j.max_nodes = 2;
  const std::string fixed = batch_script(j);
  for (const char* line : {"#SBATCH --job-name=\"my run\"\n", "#SBATCH --output=\"/r/a \\\"b\\\"/slurm-%j.log\"\n",
                           "#SBATCH --time=1-12\n", "#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=1\n",
                           "#SBATCH --cpus-per-task=8\n", "#SBATCH --signal=USR1@60\n", "#SBATCH --requeue\n",
                           "#SBATCH --mem=0\n", "export SRUN_CPUS_PER_TASK=8\n", "srun --mpi=pmix "})
    CHECK_THAT(fixed, Catch::Contains(line));
  CHECK(fixed.rfind("#SBATCH") < fixed.find("set -euo"));  // sbatch stops at the first command

  j.max_nodes = 4;
  j.launcher = "mpirun";
  j.ranks_per_node = 2;
  const std::string range = batch_script(j);
  for (const char* line : {"#SBATCH --nodes=2-4\n", "#SBATCH --mincpus=16\n", "#SBATCH --signal=B:USR1@60\n"})
    CHECK_THAT(range, Catch::Contains(line));
  CHECK_THAT(range, !Catch::Contains("--ntasks-per-node"));

  j.name = "two\nlines";
  CHECK_THROWS_AS(batch_script(j), ConfigError);
}

TEST_CASE("shell_word leaves plain words unchanged and quotes the rest") {
  CHECK(shell_word("a-b/c.d=1") == "a-b/c.d=1");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's") == "'it'\\''s'");
}
