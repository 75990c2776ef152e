#include "measure_machine.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <span>

#include "base/cpu_times.h"
#include "base/log.h"
#include "base/parallel.h"
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
  f.device = ops.device_memory() ? ClusterDevice::cuda : ClusterDevice::cpu;
  f.nodes = nodes;
  const MemoryFacts memory = inspect_memory();
  const CpuFacts cpu = inspect_cpu();
  std::vector<GpuFacts> gpus;
  if (f.device == ClusterDevice::cuda) inspect_libraries(gpus);
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

// Returns text for the source of the rates if other programs took cores from the ranks; "" if not. All ranks call this.
std::string disturbance(const std::optional<CpuTimes>& before, Group& all_ranks, int64_t nodes) {
  const auto now = read_cpu_times();
  const double passed = before && now ? std::chrono::duration<double>(now->at - before->at).count() : 0;
  double own = passed > 0 ? (now->own_s - before->own_s) / passed : 0, threads = max_threads();
  all_ranks.all_reduce(std::span(&own, 1));
  all_ranks.all_reduce(std::span(&threads, 1));
  if (passed <= 0) return "";
  const double busy = (now->busy_s - before->busy_s) / passed;
  const double of_node = 1.0 / static_cast<double>(nodes);
  const double taken = cores_taken(busy, own * of_node, static_cast<int>(threads * of_node), now->cores);
  return taken == 0
             ? ""
             : fmt::format("; other programs took {:.1f} of its {} cores meanwhile: measure again when it is idle",
                           taken, now->cores);
}

}  // namespace

MeasuredMachine measure_machine(Ops& ops, World& world, Group& all_ranks, bool quick) {
  const std::vector<std::string> hosts = all_ranks.all_gather(host_name());
  const auto nodes = static_cast<int64_t>(std::set<std::string>(hosts.begin(), hosts.end()).size());
  const auto times_before = read_cpu_times();
  MeasuredMachine m;
  m.links = measure_links(world, ops, hosts, quick);
  m.rates = measure_device(ops, all_ranks, static_cast<int>(world.size() / nodes), quick);
  NodeFacts facts = facts_of_node(ops, world, nodes);
  const std::string disturbed = disturbance(times_before, all_ranks, nodes);
  facts.source += disturbed;
  if (!disturbed.empty()) log::warning("the measured rates of {} are too low{}", facts.name, disturbed);
  m.cluster = measured_cluster(facts, m.rates, m.links, {});
  return m;
}

}  // namespace fp
