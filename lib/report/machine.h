// What a machine offers to this process: cores, instruction sets, memory, disk, GPUs, libraries, batch system.
//
// Nothing here is linked against: drivers and libraries are looked up at run time and asked for their versions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace fp {

struct CpuFacts {
  std::string model;
  int logical = 0;       // logical CPUs online in the machine
  int usable = 0;        // logical CPUs in this process's affinity mask
  int usable_cores = 0;  // physical cores behind them
  double quota = 0;      // CPUs' worth of time the control group grants; 0: no quota
  int numa_nodes = 1;
  bool avx2 = false;    // AVX2 and FMA
  bool avx512 = false;  // AVX-512 F, BW, DQ and VL
  bool avx512_bf16 = false;
  bool amx_bf16 = false;    // the CPU has AMX tiles and TDPBF16PS
  bool amx_usable = false;  // and the kernel grants tiles to this process
};

struct MemoryFacts {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;         // as the kernel estimates, within the control group's limit
  int64_t limit_bytes = 0;             // the control group's limit; 0: none
  int64_t process_bytes = -1;          // that this process may still take (ulimit -d, -v); -1: no limit
  std::string transparent_huge_pages;  // always | madvise | never; empty: not offered
  int64_t huge_page_bytes = 0;         // size of a reserved huge page
  int64_t huge_pages_free = 0;         // reserved ones not in use
};

struct DiskFacts {
  std::string path;
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // for this user
};

struct GpuFacts {
  std::string name;
  int64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0;
};

// Versions; empty: not found.
struct LibraryFacts {
  std::string mpi, nccl, hdf5, onednn, cuda_driver;
  std::string cuda_note;  // why a driver that is installed offers no device
};

struct SlurmFacts {
  bool commands = false;                        // sinfo is on PATH
  std::string job_id, nodes, tasks, partition;  // of the job this process runs in; empty outside a job
};

struct MachineFacts {
  std::string host, system, kernel;
  CpuFacts cpu;
  MemoryFacts memory;
  DiskFacts disk;
  std::vector<GpuFacts> gpus;
  LibraryFacts libraries;
  SlurmFacts slurm;
  bool mpirun = false;          // on PATH
  std::string omp_num_threads;  // the variable's text; empty: not set
};

// Where kernel facts are read from; tests put a small tree of their own here.
struct MachineRoots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
};

// The limits of this process's control group (versions 1 and 2), the tightest on the way up to the root.
struct ControlGroupLimits {
  double cpus = 0;              // 0: none
  int64_t memory_bytes = 0;     // 0: none
  int64_t memory_headroom = 0;  // limit less what is in use and cannot be given back; only with a limit
};
ControlGroupLimits control_group_limits(const MachineRoots& roots = {});

CpuFacts inspect_cpu(const MachineRoots& roots = {});
MemoryFacts inspect_memory(const MachineRoots& roots = {});
// Looks at the nearest existing folder at or above `path`.
DiskFacts inspect_disk(const std::filesystem::path& path);
// Fills libraries and GPUs. Loads what it finds into this process.
LibraryFacts inspect_libraries(std::vector<GpuFacts>& gpus);

// Everything; `path` is where a run would write.
MachineFacts inspect_machine(const std::filesystem::path& path);

nlohmann::json to_json(const MachineFacts& machine);
// Reads what to_json wrote; missing keys keep their defaults.
MachineFacts machine_from_json(const nlohmann::json& json);

// "AVX2, AVX-512, AVX512_BF16, AMX-BF16": what the CPU has and this process may use.
std::string isa_text(const CpuFacts& cpu);

}  // namespace fp
