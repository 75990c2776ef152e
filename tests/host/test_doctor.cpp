#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "host/doctor.h"

using namespace fp;
using Catch::Contains;

namespace {

MachineFacts good_machine() {
  MachineFacts m;
  m.host = "node7";
  m.cpu = {"Fast CPU", 8, 8, 8, 0, 1, true, true, true, true, true};
  m.memory = {int64_t{64} << 30, int64_t{48} << 30, 0, -1, "madvise", 2 << 20, 0};
  m.disk = {"/runs", int64_t{500} << 30, int64_t{200} << 30};
  m.libraries.mpi = "Open MPI v4.1.4";
  m.mpirun = true;
  m.libraries.hdf5 = "1.10.8";
  return m;
}

Finding find(const MachineFacts& machine, const std::string& subject) {
  const auto findings = diagnose(machine);
  const auto it =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.subject == subject; });
  REQUIRE(it != findings.end());
  return *it;
}

size_t problems(const MachineFacts& machine) {
  const auto findings = diagnose(machine);
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return f.verdict == Verdict::problem; }));
}

}  // namespace

TEST_CASE("a good machine has no problems") {
  CHECK(problems(good_machine()) == 0);
  CHECK_THAT(find(good_machine(), "vector units").text, Contains("AMX-BF16"));
  CHECK_THAT(doctor_text(diagnose(good_machine()), false), Contains("ready for fptrain") && !Contains("\x1b"));
}

TEST_CASE("each weakness of a machine is reported with advice") {
  MachineFacts m = good_machine();
  SECTION("AMX there but not granted") {
    m.cpu.amx_usable = false;
    CHECK(find(m, "vector units").verdict == Verdict::problem);
    CHECK_THAT(find(m, "vector units").advice, Contains("AMX") && Contains("AVX-512"));
  }
  SECTION("no AMX") {
    m.cpu.amx_usable = m.cpu.amx_bf16 = false;
    CHECK(find(m, "vector units").verdict == Verdict::note);
    CHECK_THAT(find(m, "vector units").advice, Contains("bf16"));
    m.cpu.avx512_bf16 = false;
    CHECK_THAT(find(m, "vector units").advice, Contains("fp32 is as fast"));
    m.cpu.avx512 = m.cpu.avx2 = false;
    CHECK(find(m, "vector units").verdict == Verdict::problem);
  }
  SECTION("a CPU quota") {
    m.cpu.quota = 2.5;
    CHECK(find(m, "CPU").verdict == Verdict::note);
    CHECK_THAT(find(m, "CPU").advice, Contains("run.threads 0 is 3 threads"));
    CHECK_THAT(find(m, "threads").text, Contains("use 3 threads"));
  }
  SECTION("part of the CPUs, hyper-threads") {
    m.cpu.usable = m.cpu.usable_cores = 4;
    CHECK_THAT(find(m, "CPU").advice, Contains("affinity"));
    m.cpu.usable = 8;
    CHECK_THAT(find(m, "CPU").advice, Contains("4 threads"));
  }
  SECTION("memory, disk, huge pages") {
    m.memory.available_bytes = int64_t{1} << 30;
    m.memory.limit_bytes = int64_t{4} << 30;
    m.disk.free_bytes = int64_t{2} << 30;
    m.memory.transparent_huge_pages = "never";
    CHECK(problems(m) == 2);
    CHECK_THAT(find(m, "memory").text, Contains("limit 4.00 GiB"));
    CHECK_THAT(find(m, "disk").advice, Contains("179M-parameter"));
    CHECK_THAT(find(m, "huge pages").advice, Contains("madvise"));
  }
  SECTION("GPUs") {
    CHECK(find(m, "GPU").verdict == Verdict::note);
    m.libraries.cuda_note = "CUDA_ERROR_NO_DEVICE";
    CHECK(find(m, "GPU").verdict == Verdict::problem);
    CHECK_THAT(find(m, "GPU").text, Contains("CUDA_ERROR_NO_DEVICE"));
    m.gpus = {{"GPU A", int64_t{80} << 30, 9, 0}, {"GPU B", int64_t{80} << 30, 9, 0}};
    CHECK_THAT(find(m, "GPU").text, Contains("80.0 GiB") && Contains("9.0"));
    CHECK(find(m, "NCCL").verdict == Verdict::problem);
    m.libraries.nccl = "2.18.3";
    CHECK(find(m, "NCCL").verdict == Verdict::good);
  }
  SECTION("libraries and Slurm") {
    CHECK(find(m, "Slurm").verdict == Verdict::note);
    CHECK(find(m, "MPI").verdict == Verdict::good);
    m.mpirun = false;
    CHECK_THAT(find(m, "MPI").text, Contains("v4.1.4") && Contains("no mpirun"));
    CHECK_THAT(find(m, "MPI").advice, Contains("openmpi-bin"));
    m.slurm.commands = true;
    CHECK_THAT(find(m, "MPI").advice, Contains("srun --mpi=pmix"));
    m.libraries.hdf5.clear();
    m.slurm = {true, "77", "2", "8", "gpu"};
    CHECK_THAT(find(m, "HDF5").advice, Contains("libhdf5"));
    CHECK_THAT(find(m, "Slurm").text, Contains("job 77") && Contains("nodes 2") && Contains("tasks 8"));
  }
  CHECK_THAT(doctor_text(diagnose(m), false), Contains("fptrain"));
}

TEST_CASE("the JSON has facts and findings whatever bytes they contain") {
  MachineFacts m = good_machine();
  m.host = "bad \xff \"host\"";
  m.cpu.quota = 2.5;
  const auto j = nlohmann::json::parse(doctor_json(m, diagnose(m)));
  CHECK(j["machine"]["cpu"]["usable"] == 8);
  CHECK(j["findings"].size() == diagnose(m).size());
  CHECK(std::any_of(j["findings"].begin(), j["findings"].end(),
                    [](const auto& f) { return f["subject"] == "CPU" && f["verdict"] == "note"; }));
}
