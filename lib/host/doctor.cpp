#include "host/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/human_text.h"

namespace fp {
namespace {

// Number of threads that can run at the same time: the CPUs of the affinity mask, or fewer under a quota.
int useful_threads(const CpuFacts& cpu) {
  return cpu.quota > 0 ? std::min(core_quota_of(cpu.quota), std::max(cpu.usable, 1)) : cpu.usable;
}

Finding check_cores(const CpuFacts& cpu) {
  Finding f{
      Verdict::good, "CPU",
      fmt::format("{}, {} of {} logical CPUs usable ({} cores)", cpu.model, cpu.usable, cpu.logical, cpu.usable_cores),
      ""};
  if (cpu.numa_nodes > 1) f.text += fmt::format(", {} NUMA nodes", cpu.numa_nodes);
  if (cpu.quota > 0) f.text += fmt::format(", quota {:.3g} CPUs", cpu.quota);
  if (cpu.quota > 0 && cpu.quota < cpu.usable) {
    f.verdict = Verdict::note;
    f.advice = fmt::format(
        "the control group grants {:.3g} CPUs' time for {} CPUs: run.threads 0 is {} threads for all ranks of this "
        "host together, and more would only wait for each other",
        cpu.quota, cpu.usable, useful_threads(cpu));
  } else if (cpu.usable < cpu.logical) {
    f.verdict = Verdict::note;
    f.advice = "the affinity mask leaves some CPUs out (taskset, mpirun binding or a batch job's share)";
  } else if (cpu.usable_cores < cpu.usable) {
    f.verdict = Verdict::note;
    f.advice =
        fmt::format("CPUs are hyper-threads: matrix products seldom gain from more than {} threads", cpu.usable_cores);
  }
  return f;
}

Finding check_isa(const CpuFacts& cpu) {
  Finding f{Verdict::good, "vector units", isa_text(cpu), ""};
  if (cpu.amx_usable) {
    f.advice = "bf16 matrix products run on AMX tiles, many times faster than fp32: keep precision.compute bf16";
  } else if (cpu.amx_bf16) {
    f.verdict = Verdict::problem;
    f.advice = "the CPU has AMX, but the kernel or hypervisor does not grant tiles: bf16 falls back to AVX-512";
  } else if (cpu.avx512_bf16) {
    f.verdict = Verdict::note;
    f.advice =
        "no AMX: on AMD's CPUs AVX512_BF16 makes products of bf16 twice as fast as of fp32; Intel's CPUs since "
        "Sapphire Rapids compute them in fp32, and bf16 only saves memory";
  } else if (cpu.avx2) {
    f.verdict = Verdict::note;
    f.advice = "no bf16 units: precision.compute fp32 is as fast or faster; bf16 only saves memory";
  } else {
    f.verdict = Verdict::problem;
    f.advice = "no AVX2: training works, but slowly";
  }
  return f;
}

Finding check_threads(const MachineFacts& machine) {
  return {Verdict::good, "threads", fmt::format("runs use {} threads", useful_threads(machine.cpu)), ""};
}

Finding check_memory(const MemoryFacts& memory) {
  const auto available = static_cast<double>(memory.available_bytes);
  Finding f{
      Verdict::good, "memory",
      fmt::format("{} available of {}", human_bytes(available), human_bytes(static_cast<double>(memory.total_bytes))),
      ""};
  if (memory.limit_bytes > 0)
    f.text += fmt::format(", control group limit {}", human_bytes(static_cast<double>(memory.limit_bytes)));
  if (memory.process_bytes >= 0)
    f.text += fmt::format(", {} for one process (ulimit)", human_bytes(static_cast<double>(memory.process_bytes)));
  // Parameters, gradients and both moments in fp32 plus bf16 copies: 18 bytes per parameter, in half of the memory.
  const std::string parameters = human_count(available / 2 / 18);
  f.advice = fmt::format("memory for a model of about {} parameters and its activations", parameters);
  if (available < 2 * kGiB) {
    f.verdict = Verdict::problem;
    f.advice = fmt::format("little memory: keep models below about {} parameters", parameters);
  }
  return f;
}

Finding check_huge_pages(const MemoryFacts& memory) {
  const std::string& mode = memory.transparent_huge_pages;
  if (mode == "always" || mode == "madvise") return {Verdict::good, "huge pages", "transparent, " + mode, ""};
  return {Verdict::note, "huge pages", mode.empty() ? "not offered" : "transparent, " + mode,
          "large buffers use 4 KiB pages; as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding check_disk(const DiskFacts& disk) {
  const auto free = static_cast<double>(disk.free_bytes);
  Finding f{Verdict::good, "disk",
            fmt::format("{} free of {} at {}", human_bytes(free), human_bytes(static_cast<double>(disk.total_bytes)),
                        disk.path),
            ""};
  if (free < 10 * kGiB) {
    f.verdict = Verdict::problem;
    // fp32 parameters and both moments: 12 bytes per parameter.
    f.advice = fmt::format(
        "little space: one checkpoint of a {}-parameter model fills it (12 bytes a parameter); set "
        "checkpoint.keep_last low or run.directory elsewhere",
        human_count(free / 12));
  }
  return f;
}

void check_gpus(const MachineFacts& machine, std::vector<Finding>& findings) {
  const LibraryFacts& libraries = machine.libraries;
  const std::string driver =
      libraries.cuda_driver.empty() ? "" : fmt::format(" (driver for CUDA {})", libraries.cuda_driver);
  for (const GpuFacts& gpu : machine.gpus)
    findings.push_back(
        {Verdict::good, "GPU",
         fmt::format("{}, {}, compute capability {}.{}{}", gpu.name, human_bytes(static_cast<double>(gpu.memory_bytes)),
                     gpu.compute_major, gpu.compute_minor, driver),
         ""});
  if (machine.gpus.empty() && !libraries.cuda_note.empty()) {
    findings.push_back({Verdict::problem, "GPU", "none usable: " + libraries.cuda_note + driver,
                        "check the driver with nvidia-smi and CUDA_VISIBLE_DEVICES"});
  } else if (machine.gpus.empty()) {
    findings.push_back({Verdict::note, "GPU", "none", "runs use the CPU"});
  }
  if (machine.gpus.size() > 1 && libraries.nccl.empty())
    findings.push_back({Verdict::problem, "NCCL", "not found", "several GPUs need it: install libnccl2"});
}

void check_library(std::vector<Finding>& findings, const char* subject, const std::string& version,
                   const char* without) {
  if (!version.empty()) {
    findings.push_back({Verdict::good, subject, version, ""});
  } else {
    findings.push_back({Verdict::note, subject, "not found", without});
  }
}

Finding check_mpi(const MachineFacts& machine) {
  const std::string& version = machine.libraries.mpi;
  if (version.empty()) return {Verdict::note, "MPI", "not found", "one rank only; install openmpi-bin for several"};
  if (machine.mpirun) return {Verdict::good, "MPI", version, ""};
  return {Verdict::note, "MPI", version + ", but no mpirun on the PATH",
          machine.slurm.commands ? "start ranks with srun --mpi=pmix" : "several ranks need it: install openmpi-bin"};
}

Finding check_slurm(const SlurmFacts& slurm) {
  if (!slurm.job_id.empty())
    return {
        Verdict::good, "Slurm",
        fmt::format("in job {}{}{}{}", slurm.job_id, slurm.partition.empty() ? "" : ", partition " + slurm.partition,
                    slurm.nodes.empty() ? "" : ", nodes " + slurm.nodes,
                    slurm.tasks.empty() ? "" : ", tasks " + slurm.tasks),
        ""};
  if (slurm.commands) return {Verdict::good, "Slurm", "installed, not inside a job", ""};
  return {Verdict::note, "Slurm", "not found", "runs start directly or under mpirun"};
}

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return "ok";
    case Verdict::note:
      return "note";
    case Verdict::problem:
      return "problem";
  }
  return "?";
}

const char* colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return "\x1b[32m";
    case Verdict::note:
      return "\x1b[36m";
    case Verdict::problem:
      return "\x1b[33m";
  }
  return "";
}

}  // namespace

std::vector<Finding> diagnose(const MachineFacts& machine) {
  std::vector<Finding> findings;
  findings.push_back(
      {Verdict::good, "system", fmt::format("{}, {}, Linux {}", machine.host, machine.system, machine.kernel), ""});
  findings.push_back(check_cores(machine.cpu));
  findings.push_back(check_isa(machine.cpu));
  findings.push_back(check_threads(machine));
  findings.push_back(check_memory(machine.memory));
  findings.push_back(check_huge_pages(machine.memory));
  findings.push_back(check_disk(machine.disk));
  check_gpus(machine, findings);
  findings.push_back(check_mpi(machine));
  if (!machine.libraries.nccl.empty()) findings.push_back({Verdict::good, "NCCL", machine.libraries.nccl, ""});
  check_library(findings, "HDF5", machine.libraries.hdf5, "checkpoints need it: install libhdf5-103");
  findings.push_back(check_slurm(machine.slurm));
  return findings;
}

std::string doctor_text(const std::vector<Finding>& findings, bool colour) {
  size_t width = 0;
  for (const Finding& f : findings) width = std::max(width, f.subject.size());
  std::string text;
  size_t problems = 0;
  for (const Finding& f : findings) {
    const std::string mark = fmt::format("{:<7}", word(f.verdict));
    text += fmt::format("{}  {:<{}}  {}\n", colour ? colour_of(f.verdict) + mark + "\x1b[0m" : mark, f.subject, width,
                        f.text);
    if (!f.advice.empty()) text += fmt::format("{:{}}-> {}\n", "", width + 11, f.advice);
    problems += f.verdict == Verdict::problem ? 1 : 0;
  }
  if (problems == 0) return text + "\nThis machine is ready for fptrain.\n";
  return text + fmt::format("\nThis machine can run fptrain; {} thing{} above would make it better.\n", problems,
                            problems == 1 ? "" : "s");
}

std::string doctor_json(const MachineFacts& machine, const std::vector<Finding>& findings) {
  nlohmann::json out{{"machine", to_json(machine)}, {"findings", nlohmann::json::array()}};
  for (const Finding& f : findings)
    out["findings"].push_back(
        {{"verdict", word(f.verdict)}, {"subject", f.subject}, {"text", f.text}, {"advice", f.advice}});
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace fp
