// Detects what a machine offers to this process: cores, instruction sets, memory, disk, GPUs, libraries, batch system.
//
// Drivers and libraries are not linked against: they are loaded at run time and queried for their versions.
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
  int usable_cores = 0;  // physical cores of the usable CPUs
  double quota = 0;      // CPU time that the control group grants, in CPUs; 0: no quota
  int numa_nodes = 1;
  bool avx2 = false;    // AVX2 and FMA
  bool avx512 = false;  // AVX-512 F, BW, DQ and VL
  bool avx512_bf16 = false;
  bool amx_bf16 = false;    // the CPU has AMX tiles and TDPBF16PS
  bool amx_usable = false;  // and the kernel grants the tiles to this process
};

struct MemoryFacts {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;         // the kernel's estimate, within the control group's limit
  int64_t limit_bytes = 0;             // the control group's limit; 0: none
  int64_t process_bytes = -1;          // memory that this process may still allocate (ulimit -d, -v); -1: no limit
  std::string transparent_huge_pages;  // always | madvise | never; empty: not supported
  int64_t huge_page_bytes = 0;         // size of a reserved huge page
  int64_t huge_pages_free = 0;         // reserved huge pages not in use
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

// Library versions; empty: not found.
struct LibraryFacts {
  std::string mpi, nccl, hdf5, cuda_driver;
  std::string cuda_note;  // why an installed driver offers no device
};

struct SlurmFacts {
  bool commands = false;                        // sinfo is on PATH
  std::string job_id, nodes, tasks, partition;  // of the job of this process; empty outside a job
};

struct MachineFacts {
  std::string host, system, kernel;
  CpuFacts cpu;
  MemoryFacts memory;
  DiskFacts disk;
  std::vector<GpuFacts> gpus;
  LibraryFacts libraries;
  SlurmFacts slurm;
  bool mpirun = false;  // on PATH
};

// The folders from which kernel facts are read; tests pass a small tree of their own.
struct MachineRoots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
};

// The limits of this process's control group (versions 1 and 2), the tightest on the way up to the root.
struct ControlGroupLimits {
  double cpus = 0;              // 0: none
  int64_t memory_bytes = 0;     // 0: none
  int64_t memory_headroom = 0;  // limit less memory in use that cannot be reclaimed; only set with a limit
};
ControlGroupLimits control_group_limits(const MachineRoots& roots = {});

CpuFacts inspect_cpu(const MachineRoots& roots = {});
// Returns a quota rounded up to whole cores; 0 without a quota.
int core_quota_of(double cpus);
MemoryFacts inspect_memory(const MachineRoots& roots = {});
// Inspects the file system of the nearest existing folder at or above `path`.
DiskFacts inspect_disk(const std::filesystem::path& path);
// Returns the library versions and fills in the GPUs. Loads the libraries that it finds into this process.
LibraryFacts inspect_libraries(std::vector<GpuFacts>& gpus);

// Inspects everything; `path` is where a run would write.
MachineFacts inspect_machine(const std::filesystem::path& path);

nlohmann::json to_json(const MachineFacts& machine);
// Reads the output of to_json(); missing keys keep their defaults.
MachineFacts machine_from_json(const nlohmann::json& json);

// Returns the instruction sets that the CPU has and this process may use: "AVX2, AVX-512, AVX512_BF16, AMX-BF16".
std::string isa_text(const CpuFacts& cpu);

}  // namespace fp
