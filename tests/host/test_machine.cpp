#include <unistd.h>

#include <nlohmann/json.hpp>

#include "host/machine.h"
#include "support/temporary_folder.h"

using namespace fp;
using fp::test::TemporaryFolder;
using fp::test::write_text;

namespace {

constexpr int64_t kMiB = 1 << 20;

// A small /proc and /sys.
struct FakeKernel {
  TemporaryFolder dir;
  MachineRoots roots{dir.path / "proc", dir.path / "sys"};

  FakeKernel() {
    write_text(roots.proc / "meminfo",
               "MemTotal:       16384000 kB\nMemFree:  1 kB\nMemAvailable:   8192000 kB\nHugePages_Free:       3\n"
               "Hugepagesize:       2048 kB\n");
    write_text(roots.sys / "kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  }
  void group(const std::string& file, const std::string& content) {
    write_text(roots.sys / "fs/cgroup" / file, content);
  }
};

}  // namespace

TEST_CASE("the tightest limit of nested version 2 control groups applies") {
  FakeKernel k;
  write_text(k.roots.proc / "self/cgroup", "0::/slice/job/step\n");
  k.group("slice/job/step/cpu.max", "max 100000\n");
  k.group("slice/job/step/memory.max", "max\n");
  k.group("slice/job/cpu.max", "250000 100000\n");
  k.group("slice/job/memory.max", std::to_string(4096 * kMiB));
  k.group("slice/job/memory.current", std::to_string(3000 * kMiB));
  k.group("slice/job/memory.stat", "anon 5\ninactive_file " + std::to_string(1000 * kMiB) + "\nslab 1\n");
  k.group("slice/cpu.max", "800000 100000\n");
  k.group("slice/memory.max", std::to_string(8192 * kMiB));

  const ControlGroupLimits limits = control_group_limits(k.roots);
  CHECK(limits.cpus == Approx(2.5));
  CHECK(limits.memory_bytes == 4096 * kMiB);
  CHECK(limits.memory_headroom == 2096 * kMiB);
  CHECK(inspect_cpu(k.roots).quota == Approx(2.5));

  const MemoryFacts memory = inspect_memory(k.roots);
  CHECK(memory.total_bytes == int64_t{16384000} * 1024);
  CHECK(memory.limit_bytes == 4096 * kMiB);
  CHECK(memory.available_bytes == 2096 * kMiB);
  CHECK(memory.transparent_huge_pages == "madvise");
  CHECK(memory.huge_page_bytes == 2 * kMiB);
  CHECK(memory.huge_pages_free == 3);
}

TEST_CASE("the memory left under ulimit is computed") {
  FakeKernel k;
  CHECK(inspect_memory(k.roots).process_bytes == -1);
  write_text(k.roots.proc / "self/status", "VmSize:\t  900000 kB\nVmData:\t  100000 kB\n");
  write_text(k.roots.proc / "self/limits",
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max data size             unlimited            unlimited            bytes     \n"
             "Max address space         unlimited            unlimited            bytes     \n");
  CHECK(inspect_memory(k.roots).process_bytes == -1);
  write_text(k.roots.proc / "self/limits",
             "Max data size             1126400000           unlimited            bytes     \n"
             "Max address space         1945600000           unlimited            bytes     \n");
  CHECK(inspect_memory(k.roots).process_bytes == 1'024'000'000);
  write_text(k.roots.proc / "self/limits",
             "Max address space         600000000           unlimited            bytes\n");
  CHECK(inspect_memory(k.roots).process_bytes == 0);
}

TEST_CASE("a huge limit of a version 1 control group means no limit") {
  FakeKernel k;
  write_text(k.roots.proc / "self/cgroup", "5:devices:/\n4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n");
  k.group("memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  k.group("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  k.group("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  CHECK(control_group_limits(k.roots).memory_bytes == 0);
  CHECK(control_group_limits(k.roots).cpus == 0);
  CHECK(inspect_memory(k.roots).available_bytes == int64_t{8192000} * 1024);

  k.group("memory/job/memory.limit_in_bytes", std::to_string(512 * kMiB));
  k.group("memory/job/memory.usage_in_bytes", std::to_string(100 * kMiB));
  k.group("memory/job/memory.stat", "cache 1\ntotal_inactive_file " + std::to_string(30 * kMiB) + "\n");
  k.group("cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  CHECK(control_group_limits(k.roots).memory_bytes == 512 * kMiB);
  CHECK(inspect_memory(k.roots).available_bytes == 442 * kMiB);
  CHECK(control_group_limits(k.roots).cpus == Approx(1.5));
}

TEST_CASE("a machine without readable facts is not an error") {
  const TemporaryFolder dir;
  const MachineRoots nowhere{dir.path / "proc", dir.path / "sys"};
  CHECK(control_group_limits(nowhere).cpus == 0);
  CHECK(inspect_memory(nowhere).total_bytes == 0);
  CHECK(inspect_cpu(nowhere).model == "unknown");
  CHECK(inspect_cpu(nowhere).usable >= 1);
}

TEST_CASE("cores are counted by their thread sibling lists") {
  FakeKernel k;
  const CpuFacts before = inspect_cpu(k.roots);
  CHECK(before.usable_cores == before.usable);
  for (int i = 0; i < before.logical; ++i)
    write_text(k.roots.sys / ("devices/system/cpu/cpu" + std::to_string(i)) / "topology/thread_siblings_list",
               "0-999\n");
  write_text(k.roots.sys / "devices/system/node/node0/x", "");
  write_text(k.roots.sys / "devices/system/node/node1/x", "");
  write_text(k.roots.sys / "devices/system/node/online", "0-1");
  write_text(k.roots.proc / "cpuinfo", "processor : 0\nmodel name\t: Fast CPU 9000\n");
  const CpuFacts cpu = inspect_cpu(k.roots);
  CHECK(cpu.usable_cores == 1);
  CHECK(cpu.numa_nodes == 2);
  CHECK(cpu.model == "Fast CPU 9000");
}

TEST_CASE("instruction sets imply each other as the hardware has them") {
  const CpuFacts cpu = inspect_cpu();
  if (cpu.avx512_bf16) CHECK(cpu.avx512);
  if (cpu.avx512) CHECK(cpu.avx2);
  if (cpu.amx_usable) CHECK(cpu.amx_bf16);
#if defined(__x86_64__)
  CHECK(cpu.avx2 == (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
  CHECK(cpu.avx512 == (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")));
#endif
  CHECK(isa_text({}) == "baseline only");
}

TEST_CASE("disk space is that of the nearest existing folder") {
  const TemporaryFolder dir;
  const DiskFacts disk = inspect_disk(dir.path / "not" / "yet" / "there");
  CHECK(disk.path == dir.path.string());
  CHECK(disk.free_bytes > 0);
  CHECK(disk.total_bytes >= disk.free_bytes);
  CHECK(inspect_disk(dir.path / "").path == dir.path.string());
}

TEST_CASE("machine facts survive a round trip through JSON") {
  MachineFacts m = inspect_machine(".");
  CHECK_FALSE(m.host.empty());
  CHECK(m.memory.available_bytes > 0);
  m.gpus = {{"Some GPU", int64_t{80} << 30, 9, 0}};
  m.slurm.job_id = "42";
  m.cpu.quota = 1.5;
  const nlohmann::json j = to_json(m);
  CHECK(to_json(machine_from_json(j)) == j);
  CHECK(j["gpus"][0]["compute_major"] == 9);
  CHECK(to_json(machine_from_json(nlohmann::json::object())) == to_json(MachineFacts{}));
}
