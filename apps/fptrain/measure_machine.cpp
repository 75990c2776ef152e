#include "measure_machine.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "dryrun/memory_watch.h"
#include "host/machine.h"
#include "launch/placement.h"

namespace fp {
namespace {

constexpr double kGib = 1 << 30;

std::string today() {
  return fmt::format("{:%Y-%m-%d}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

NodeFacts facts_of_node(const Ops& ops, const World& world, int64_t nodes) {
  const int64_t ranks = world.size() / nodes;
  NodeFacts f;
  f.name = host_name();
  f.device = ops.device_memory() ? "cuda" : "cpu";
  f.nodes = nodes;
  const MemoryFacts memory = inspect_memory();
  const CpuFacts cpu = inspect_cpu();
  std::vector<GpuFacts> gpus;
  if (f.device == "cuda") inspect_libraries(gpus);
  f.source = fmt::format("measured by fptrain {} bench all on {}: {}", FPTRAIN_VERSION, today(),
                         gpus.empty() ? cpu.model : gpus.front().name);
  const int64_t places = gpus.empty() ? cpu.usable_cores : static_cast<int64_t>(gpus.size());
  f.ranks_per_node = std::max(places, ranks);
  const int64_t host = memory.limit_bytes > 0 ? std::min(memory.limit_bytes, memory.total_bytes) : memory.total_bytes;
  const auto device = ops.device_memory();
  f.host_memory_gib = static_cast<double>(host) / kGib;
  f.memory_gib = device ? static_cast<double>(device->used + device->available) / kGib : f.host_memory_gib;
  f.reserved_gib = static_cast<double>(MemoryWatch(ops).before()) / kGib;
  f.overlaps = world.backend() == "nccl" || (world.size() == 1 && device.has_value());
  return f;
}

}  // namespace

MeasuredMachine measure_machine(Ops& ops, World& world, Group& all_ranks, bool quick) {
  const std::vector<std::string> hosts = all_ranks.all_gather(host_name());
  const auto nodes = static_cast<int64_t>(std::set<std::string>(hosts.begin(), hosts.end()).size());
  MeasuredMachine m;
  m.links = measure_links(world, ops, hosts, quick);
  m.rates = measure_device(ops, all_ranks, static_cast<int>(world.size() / nodes), quick);
  m.cluster = measured_cluster(facts_of_node(ops, world, nodes), m.rates, m.links, {});
  return m;
}

}  // namespace fp
