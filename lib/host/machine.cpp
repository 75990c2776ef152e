#include "host/machine.h"

#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/json_numbers.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool on_path(const std::string& program) {
  std::stringstream folders(environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && ::access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

SlurmFacts inspect_slurm() {
  return {on_path("sinfo"), environment("SLURM_JOB_ID"), environment("SLURM_JOB_NUM_NODES"),
          environment("SLURM_NTASKS"), environment("SLURM_JOB_PARTITION")};
}

std::string system_name() {
  std::ifstream in("/etc/os-release");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("PRETTY_NAME=\"") && line.ends_with('"')) return line.substr(13, line.size() - 14);
  return "Linux";
}

// One list of (key, member) per struct serves both directions. `Visit` is called as visit("key", value).
template <class Facts, class Visit>
void visit_cpu(Facts& c, Visit&& visit) {
  visit("model", c.model);
  visit("logical", c.logical);
  visit("usable", c.usable);
  visit("usable_cores", c.usable_cores);
  visit("quota", c.quota);
  visit("numa_nodes", c.numa_nodes);
  visit("avx2", c.avx2);
  visit("avx512", c.avx512);
  visit("avx512_bf16", c.avx512_bf16);
  visit("amx_bf16", c.amx_bf16);
  visit("amx_usable", c.amx_usable);
}

template <class Facts, class Visit>
void visit_memory(Facts& m, Visit&& visit) {
  visit("total_bytes", m.total_bytes);
  visit("available_bytes", m.available_bytes);
  visit("limit_bytes", m.limit_bytes);
  visit("process_bytes", m.process_bytes);
  visit("transparent_huge_pages", m.transparent_huge_pages);
  visit("huge_page_bytes", m.huge_page_bytes);
  visit("huge_pages_free", m.huge_pages_free);
}

template <class Facts, class Visit>
void visit_gpu(Facts& g, Visit&& visit) {
  visit("name", g.name);
  visit("memory_bytes", g.memory_bytes);
  visit("compute_major", g.compute_major);
  visit("compute_minor", g.compute_minor);
}

// `section(name)` returns the visitor of a nested object.
template <class Facts, class Section>
void visit_machine(Facts& m, Section&& section) {
  auto&& top = section("");
  top("host", m.host);
  top("system", m.system);
  top("kernel", m.kernel);
  visit_cpu(m.cpu, section("cpu"));
  visit_memory(m.memory, section("memory"));
  auto&& disk = section("disk");
  disk("path", m.disk.path);
  disk("total_bytes", m.disk.total_bytes);
  disk("free_bytes", m.disk.free_bytes);
  auto&& libraries = section("libraries");
  libraries("mpi", m.libraries.mpi);
  libraries("mpirun", m.mpirun);
  libraries("nccl", m.libraries.nccl);
  libraries("hdf5", m.libraries.hdf5);
  libraries("cuda_driver", m.libraries.cuda_driver);
  libraries("cuda_note", m.libraries.cuda_note);
  auto&& slurm = section("slurm");
  slurm("commands", m.slurm.commands);
  slurm("job_id", m.slurm.job_id);
  slurm("nodes", m.slurm.nodes);
  slurm("tasks", m.slurm.tasks);
  slurm("partition", m.slurm.partition);
}

auto writer_into(json& object) {
  return [&object](const char* key, const auto& value) { object[key] = value; };
}

auto reader_from(const json& object) {
  return [object](const char* key, auto& value) {
    if (object.is_object() && object.contains(key)) read_from(object.at(key), key, value);
  };
}

}  // namespace

DiskFacts inspect_disk(const fs::path& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // removes a trailing slash
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  DiskFacts disk;
  disk.path = folder.string();
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) == 0) {
    disk.total_bytes = static_cast<int64_t>(info.f_blocks) * static_cast<int64_t>(info.f_frsize);
    disk.free_bytes = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }
  return disk;
}

MachineFacts inspect_machine(const fs::path& path) {
  MachineFacts machine;
  struct utsname names {};
  if (::uname(&names) == 0) {
    machine.host = names.nodename;
    machine.kernel = names.release;
  }
  machine.system = system_name();
  machine.cpu = inspect_cpu();
  machine.memory = inspect_memory();
  machine.disk = inspect_disk(path);
  machine.libraries = inspect_libraries(machine.gpus);
  machine.slurm = inspect_slurm();
  machine.mpirun = on_path("mpirun");
  return machine;
}

json to_json(const MachineFacts& machine) {
  json out = json::object();
  visit_machine(
      machine, [&](const std::string& name) { return writer_into(name.empty() ? out : (out[name] = json::object())); });
  out["gpus"] = json::array();
  for (const GpuFacts& gpu : machine.gpus) visit_gpu(gpu, writer_into(out["gpus"].emplace_back(json::object())));
  return out;
}

MachineFacts machine_from_json(const json& in) {
  MachineFacts machine;
  visit_machine(machine, [&](const std::string& name) {
    return reader_from(name.empty() ? in : in.value(name, json::object()));
  });
  for (const json& one : in.value("gpus", json::array())) visit_gpu(machine.gpus.emplace_back(), reader_from(one));
  return machine;
}

}  // namespace fp
