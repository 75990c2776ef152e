// MemorySearch finds the rank that needs most memory without dry runs of all ranks.
#include <catch2/catch.hpp>

#include "comm/counting.h"
#include "config/load.h"
#include "dryrun/setup.h"
#include "inference/evaluation.h"
#include "planner/memory.h"
#include "planner/random_run.h"
#include "planner/report.h"
#include "planner/search.h"

using namespace fp;
using namespace fp::test;

namespace {

struct Counted {
  int dry_runs = 0, roles = 0;
};

// Compares the search with dry runs of every rank.
Counted check_search(const RandomRun& r) {
  INFO(r.text());
  const auto ops = make_counting_ops();
  PipelinePlan plan = plan_pipeline(r.spec);
  MemorySearch search(r.spec, plan, r.mesh, *ops);
  const int worst = search.worst();
  const size_t found = search.exact(worst).device_bytes();
  Counted counted{0, search.roles().count()};
  for (int role = 0; role < counted.roles; ++role) counted.dry_runs += search.known_exactly(role);
  size_t most = 0;
  for (int rank = 0; rank < r.mesh.size(); ++rank) {
    const int role = search.roles().of(rank);
    const Coordinate at = r.mesh.at(rank), first = r.mesh.at(search.roles().rank(role));
    CHECK(at.pp == first.pp);
    const size_t bytes = dry_run(r.spec, plan, *ops, r.mesh, rank).device_bytes();
    INFO("rank " << rank << ", which is like " << search.roles().rank(role));
    CHECK(static_cast<double>(search.exact(role).device_bytes()) == Approx(static_cast<double>(bytes)).epsilon(1e-3));
    most = std::max(most, bytes);
  }
  CHECK(found == most);
  return counted;
}

// Checks the search on a number of random runs with pipelines of the given sizes; returns the sums.
Counted check_searches(int runs, unsigned seed, const std::vector<int>& pipeline_ranks) {
  std::mt19937 random(seed);
  Counted all;
  for (int i = 0; i < runs; ++i) {
    const Counted c = check_search(random_run(random, pipeline_ranks));
    all.dry_runs += c.dry_runs;
    all.roles += c.roles;
  }
  return all;
}

}  // namespace

TEST_CASE("the search finds the rank that needs most memory", "[planner][slow]") {
  const Counted all = check_searches(40, 1, {1, 2, 3, 4, 6});
  CHECK(all.dry_runs < all.roles);
}

TEST_CASE("the search finds the rank that needs most memory in many runs", "[planner][nightly]") {
  const Counted few = check_searches(400, 2, {1, 2, 3, 4, 6});
  CHECK(few.dry_runs < few.roles);
  const Counted many = check_searches(24, 3, {8, 16, 32});
  CHECK(2 * many.dry_runs < many.roles);
}

TEST_CASE("the search makes dry runs of few of many pipeline ranks", "[planner][slow]") {
  const Counted all = check_searches(3, 5, {8, 12});
  CHECK(2 * all.dry_runs < all.roles);
}

TEST_CASE("no evaluation takes more memory than predicted", "[planner]") {
  std::mt19937 random(6);
  for (int i = 0; i < 40; ++i) {
    const RandomRun r = random_run(random, {2, 4, 6});
    INFO(r.text());
    const auto ops = make_counting_ops();
    const PipelinePlan plan = plan_pipeline(r.spec);
    const int rank = static_cast<int>(random() % static_cast<unsigned>(r.mesh.size()));
    const Prediction predicted = dry_run(r.spec, plan, *ops, r.mesh, rank);
    const auto world = make_counting_world(rank, r.mesh.size());
    Arena arena, host_arena(Residence::host);
    const Groups groups = make_groups(*world, r.mesh);
    Model model(r.spec.model, model_options(r.spec, plan, groups.at.pp), *ops, arena, groups, &host_arena);
    Executor executor(model, executor_options(r.spec, plan));
    const std::vector<Batch> step(static_cast<size_t>(step_sizes(r.spec.train, r.mesh.dp()).back()),
                                  shape_only(r.spec));
    for (int twice = 0; twice < 2; ++twice) {
      executor.accumulate(step);
      executor.update(r.spec.optimizer, 1e-3, 1, executor.gradient_norm().norm, r.mesh.size() > 1);
      const std::vector<Batch> batches(static_cast<size_t>(executor.evaluation_batches()), shape_only(r.spec));
      for (size_t n = 1; n <= batches.size(); ++n) executor.evaluate(std::span(batches).first(n));
    }
    CHECK(arena.peak() == predicted.arena_bytes);
    CHECK(host_arena.peak() == predicted.offloaded_bytes);
  }
}

TEST_CASE("the worst rank's memory is compared with the device and the node of a cluster", "[planner]") {
  RunSpec spec = parse_run_spec(
      "model: {preset: gpt2, layers: 4}\n"
      "data: {seq_len: 256}\n"
      "train: {micro_batch: 1, global_batch: 16}\n"
      "parallel: {data: 2, tensor: 5, pipeline: {ranks: 2}}",
      "test");
  ClusterSpec cluster;
  cluster.memory_gib = 4;
  cluster.headroom = 0;
  cluster.reserved_gib = 1;
  cluster.ranks_per_node = 8;
  const auto ops = counting_ops_for(cluster);
  const auto predicted = [&](int rank) {
    const Mesh mesh(2, 2, 1, 5, 20);
    return static_cast<int64_t>(dry_run(spec, spec.model, *ops, mesh, rank).required_bytes());
  };
  constexpr int64_t kGiB = int64_t{1} << 30;
  int64_t most = 0;
  for (int rank = 0; rank < 20; ++rank) most = std::max(most, predicted(rank));

  const RankMemory of_gpu = worst_rank_memory(spec, 20, cluster, *ops);
  CHECK(of_gpu.prediction.host_bytes == 0);
  CHECK(of_gpu.bytes == most + kGiB);
  CHECK(of_gpu.available == 4 * kGiB);
  CHECK(of_gpu.node_bytes == 0);
  CHECK(of_gpu.fits());
  cluster.memory_gib = 1.125;
  const RankMemory too_little = worst_rank_memory(spec, 20, cluster, *ops);
  CHECK_FALSE(too_little.fits());
  CHECK(too_little.missing() == most - kGiB / 8);
  cluster.memory_gib = 8;
  cluster.headroom = 0.5;
  const RankMemory with_headroom = worst_rank_memory(spec, 20, cluster, *ops);
  CHECK(with_headroom.available == 4 * kGiB);
  CHECK(with_headroom.headroom == 4 * kGiB);
  CHECK(with_headroom.fits());
  cluster.headroom = 0.875;
  CHECK_FALSE(worst_rank_memory(spec, 20, cluster, *ops).fits());
  cluster.memory_gib = 1.125;
  cluster.headroom = 0;

  cluster.device = ClusterDevice::cpu;
  const auto on_cpu = counting_ops_for(cluster);
  const RankMemory of_cpu = worst_rank_memory(spec, 20, cluster, *on_cpu);
  CHECK(of_cpu.prediction.host_bytes > 0);
  int64_t fullest = 0;
  for (int first = 0; first < 20; first += 8) {
    int64_t node = 0;
    for (int rank = first; rank < std::min(first + 8, 20); ++rank)
      node +=
          kGiB + static_cast<int64_t>(dry_run(spec, spec.model, *on_cpu, Mesh(2, 2, 1, 5, 20), rank).device_bytes());
    fullest = std::max(fullest, node);
  }
  CHECK(static_cast<double>(of_cpu.node_bytes) == Approx(static_cast<double>(fullest)).epsilon(1e-4));
  CHECK_FALSE(of_cpu.fits());
}

TEST_CASE("the staging area of saves counts for the rank on CPUs and for the host on GPUs") {
  const auto spec_of = [](const char* saves) {
    return parse_run_spec(std::string("model: {preset: gpt2, layers: 4}\ndata: {seq_len: 256}\n"
                                      "train: {micro_batch: 1, global_batch: 8, steps: 1000}\n"
                                      "parallel: {data: 4, zero_stage: 1}\ncheckpoint: ") +
                              saves,
                          "test");
  };
  const RunSpec beside = spec_of("{every: 100}"), at_once = spec_of("{every: 100, asynchronous: false}"),
                small = spec_of("{every: 100, staging_mib: 32}");
  ClusterSpec cluster;
  cluster.memory_gib = 4;
  cluster.headroom = 0;
  cluster.ranks_per_node = 4;
  cluster.host_memory_gib = 1;

  cluster.device = ClusterDevice::cpu;
  const auto on_cpu = counting_ops_for(cluster);
  const RankMemory with = worst_rank_memory(beside, 4, cluster, *on_cpu),
                   without = worst_rank_memory(at_once, 4, cluster, *on_cpu);
  const int64_t parameters = with.prediction.parameters;
  CHECK(static_cast<double>(with.prediction.staging_bytes) ==
        Approx(12.0 * static_cast<double>(parameters) / 4).epsilon(0.01));
  CHECK(with.bytes - without.bytes == static_cast<int64_t>(with.prediction.staging_bytes));
  CHECK(with.node_bytes - without.node_bytes == 4 * (with.bytes - without.bytes));
  CHECK(worst_rank_memory(small, 4, cluster, *on_cpu).prediction.staging_bytes == size_t{32} << 20);

  cluster.device = ClusterDevice::cuda;
  const auto on_gpu = counting_ops_for(cluster);
  const RankMemory gpu = worst_rank_memory(beside, 4, cluster, *on_gpu);
  CHECK(gpu.bytes == worst_rank_memory(at_once, 4, cluster, *on_gpu).bytes);
  CHECK(gpu.node_bytes == 4 * static_cast<int64_t>(gpu.prediction.staging_bytes));
  CHECK(gpu.fits());
  cluster.host_memory_gib = 0.5;
  const RankMemory too_little = worst_rank_memory(beside, 4, cluster, *on_gpu);
  CHECK_FALSE(too_little.fits());
  CHECK_THAT(overrun(too_little), Catch::Contains("host memory, for saves beside training"));
  CHECK(worst_rank_memory(small, 4, cluster, *on_gpu).fits());
}

TEST_CASE("offloaded state counts for the rank on CPUs and for the host on GPUs") {
  const auto spec_of = [](const char* offload) {
    return parse_run_spec(fmt::format("model: {{preset: gpt2, layers: 4}}\ndata: {{seq_len: 256}}\n"
                                      "train: {{micro_batch: 8, global_batch: 32, steps: 1000}}\n"
                                      "parallel: {{data: 4, zero_stage: 1}}\ncheckpoint: {{every: 0}}\n"
                                      "memory: {{offload: {{optimizer: {}}}}}\n",
                                      offload),
                          "test");
  };
  const RunSpec resident = spec_of("none"), offloads = spec_of("host");
  ClusterSpec cluster;
  cluster.memory_gib = 4;
  cluster.headroom = 0;
  cluster.ranks_per_node = 4;
  cluster.host_memory_gib = 2;
  for (const ClusterDevice device : {ClusterDevice::cpu, ClusterDevice::cuda}) {
    cluster.device = device;
    const auto ops = counting_ops_for(cluster);
    const RankMemory with = worst_rank_memory(offloads, 4, cluster, *ops),
                     without = worst_rank_memory(resident, 4, cluster, *ops);
    const auto offloaded = static_cast<int64_t>(with.prediction.offloaded_bytes);
    CHECK(static_cast<double>(offloaded) ==
          Approx(12.0 * static_cast<double>(with.prediction.parameters) / 4).epsilon(0.01));
    const bool on_gpu = device == ClusterDevice::cuda;
    CAPTURE(on_gpu);
    // The arena in device memory holds that much less, as the update, with its buffers, needs less than the passes. On
    // CPUs both arenas are in the same memory.
    CHECK(without.bytes - with.bytes == (on_gpu ? offloaded : 0));
    CHECK(with.node_offloaded == 4 * offloaded);
    if (on_gpu) CHECK(with.node_bytes == 4 * offloaded);
    CHECK(with.fits());
    CHECK_THAT(describe_memory(with, cluster), Catch::Contains("offloaded optimizer"));
    CHECK_THAT(describe(with.prediction, offloads), Catch::Contains("offloaded optimizer"));
  }
  cluster.host_memory_gib = 0.5;
  const auto ops = counting_ops_for(cluster);
  const RankMemory too_little = worst_rank_memory(offloads, 4, cluster, *ops);
  CHECK_FALSE(too_little.fits());
  CHECK_THAT(overrun(too_little), Catch::Contains("host memory, for offloaded tensors"));
  CHECK(worst_rank_memory(resident, 4, cluster, *ops).fits());
}

TEST_CASE("offloaded layer inputs count for the host as the schedule holds them") {
  for (const char* const schedule : {"1f1b", "gpipe", "zb-v"}) {
    const RunSpec spec =
        parse_run_spec(fmt::format("model: {{preset: gpt2, layers: 8}}\ndata: {{seq_len: 128}}\n"
                                   "train: {{micro_batch: 1, global_batch: 8}}\ncheckpoint: {{asynchronous: false}}\n"
                                   "parallel: {{pipeline: {{ranks: 2, schedule: {}}}}}\n"
                                   "memory: {{recompute: full, offload: {{activations: host}}}}\n",
                                   schedule),
                       "test");
    CAPTURE(schedule);
    ClusterSpec cluster;
    cluster.device = ClusterDevice::cuda;
    cluster.memory_gib = 40;
    cluster.ranks_per_node = 2;
    cluster.host_memory_gib = 100;
    const auto ops = counting_ops_for(cluster);
    const Mesh mesh(2, 1, 1, 1, 2);
    int64_t both = 0;
    for (const int rank : {0, 1})
      both += static_cast<int64_t>(dry_run(spec, plan_pipeline(spec), *ops, mesh, rank).offloaded_bytes);
    CHECK(both > 0);
    CHECK(worst_rank_memory(spec, 2, cluster, *ops).node_offloaded == both);
  }
}
