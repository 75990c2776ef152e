// fptrain bench offload: steps whose optimizer state is in host memory, measured against their prediction.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench.h"
#include "bench/offload_benchmark.h"
#include "comm/backends.h"
#include "config/load.h"
#include "device.h"
#include "measure_machine.h"
#include "ops/backends.h"
#include "planner/device_share.h"
#include "planner/estimate.h"
#include "planning.h"

namespace fp {
namespace {

struct OffloadBenchArguments {
  BenchModel model;
  std::string device = "auto", cluster;
  std::vector<double> shares = {0, 0.25, 0.5, 0.75, 1};
  double link = 0, host_update = 0, synchronous_link = 0;  // GB/s
  int warmup = 1, steps = 5, threads = 0;
  bool json = false;
};

struct Row {
  std::string update;
  OffloadSteps measured;
  double predicted = 0;               // seconds of a step; 0: not known
  std::array<double, kLanes> busy{};  // fraction of an update that each lane needs for its bytes; 0: not known
};

// Rates of this machine, or those given, with the limits of the command line, as of a device that is not the host.
ClusterSpec cluster_of(const OffloadBenchArguments& a, const RunSpec& spec, Ops& ops) {
  ClusterSpec c;
  if (const auto given = cluster_for(spec, a.cluster))
    c = *given;
  else
    run_thread_ranks(
        1, [&](World& world) { c = measure_machine(ops, world, *world.group("all ranks", {0}), true).cluster; });
  c.device = ClusterDevice::cuda;
  c.overlaps = true;
  if (a.link > 0) c.host_gb_per_s = a.link;
  // The host's cores update as fast as they do as a device.
  for (const OpRates& rate : c.profiles.front().ops)
    if (c.host_update_gb_per_s == 0 && rate.op == "other") c.host_update_gb_per_s = rate.gb_per_s;
  if (a.host_update > 0) c.host_update_gb_per_s = a.host_update;
  return c;
}

// Throws ConfigError if the keys of the command line do not go with that.
RunSpec with_offload(RunSpec spec, double share, bool early_gradients) {
  OffloadSection& o = spec.memory.offload;
  o.optimizer = Offload::host;
  o.device_share = share;
  o.early_gradients = early_gradients;
  validate(spec);
  return spec;
}

std::vector<Row> measure_all(const OffloadBenchArguments& a) {
  const RunSpec spec = bench_spec(a.model);
  std::unique_ptr<Ops> ops = open_device(device_named(a.device), a.threads), slow;
  const bool limited = a.link > 0 || a.host_update > 0 || a.synchronous_link > 0;
  if (limited && ops->device_memory())
    throw ConfigError("--link-gb-per-s, --host-update-gb-per-s and --synchronous-gb-per-s are for --device cpu");
  const ClusterSpec c = cluster_of(a, spec, *ops);
  const auto limits = [&](double to_host) {
    return CopySettings{.bytes_per_s = {to_host * 1e9, a.link * 1e9, a.host_update * 1e9}};
  };
  if (limited) ops = make_cpu_ops(limits(a.link));
  if (a.synchronous_link > 0) slow = make_cpu_ops(limits(a.synchronous_link));
  std::vector<double> shares = a.shares;
  shares.push_back(best_device_share(with_offload(spec, 0.5, true), CostModel(c, 1)));
  std::ranges::sort(shares);
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());

  std::vector<OffloadVariant> variants = {{with_offload(spec, 0, false), true, slow ? slow.get() : ops.get()}};
  std::vector<Row> rows = {{"synchronous", {}, 0, {}}};
  Estimator estimator(c);
  for (const double share : shares) {
    variants.push_back({with_offload(spec, share, share < 1), false, ops.get()});
    rows.push_back(
        {fmt::format("share {:.4g}", share), {}, estimator.estimate(variants.back().spec, 1).time.total, {}});
  }
  const auto counting = make_counting_ops(ops.get());
  const std::vector<OffloadSteps> measured = benchmark_offload(variants, a.warmup, a.steps, *counting);
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& r = rows[i];
    r.measured = measured[i];
    std::array<double, kLanes> gb_per_s{c.host_gb_per_s, c.host_gb_per_s, c.host_update_gb_per_s};
    if (variants[i].synchronous && slow) gb_per_s[index_of(CopyLane::to_host)] = a.synchronous_link;
    for (size_t lane = 0; lane < kLanes; ++lane)
      if (gb_per_s[lane] > 0)
        r.busy[lane] = static_cast<double>(r.measured.bytes[lane]) / (gb_per_s[lane] * 1e9) / r.measured.update_seconds;
  }
  return rows;
}

void print(const std::vector<Row>& rows) {
  fmt::print("{:<14}{:>10}{:>14}{:>10}{:>12}{:>11}   busy: {:>8}{:>11}{:>9}\n", "update", "step ms", "predicted ms",
             "off", "times", "update ms", "to host", "to device", "on host");
  for (const Row& r : rows) {
    fmt::print("{:<14}{:>10.1f}", r.update, r.measured.seconds * 1e3);
    if (r.predicted > 0)
      fmt::print("{:>14.1f}{:>+9.1f}%", r.predicted * 1e3, 100 * (r.measured.seconds / r.predicted - 1));
    else
      fmt::print("{:>14}{:>10}", "-", "-");
    fmt::print("{:>11.2f}x{:>11.1f}         ", rows.front().measured.seconds / r.measured.seconds,
               r.measured.update_seconds * 1e3);
    for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host})
      fmt::print("{:>{}.0f}%", 100 * r.busy[index_of(lane)], lane == CopyLane::to_device ? 10 : 8);
    fmt::print("\n");
  }
  fmt::print("times: how much faster than the synchronous update; busy: part of the update that a lane needs\n");
}

nlohmann::json to_json(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& r : rows) {
    nlohmann::json row = {
        {"update", r.update}, {"step_ms", r.measured.seconds * 1e3}, {"update_ms", r.measured.update_seconds * 1e3}};
    row["predicted_ms"] = r.predicted > 0 ? nlohmann::json(r.predicted * 1e3) : nullptr;
    for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host})
      row["lanes"].push_back(
          {{"lane", name_of(lane)}, {"bytes", r.measured.bytes[index_of(lane)]}, {"busy", r.busy[index_of(lane)]}});
    list.push_back(row);
  }
  return {{"rows", list}};
}

}  // namespace

void add_bench_offload(cli::App& bench) {
  const auto a = std::make_shared<OffloadBenchArguments>();
  cli::App* command = bench.add_subcommand(
      "offload", "Time steps whose optimizer state is in host memory, and compare them with their prediction");
  add_model_options(*command, a->model);
  command->add_option("--shares", a->shares, "shares of the state that the device updates; the planner's is added")
      ->delimiter(',')
      ->capture_default_str()
      ->check(cli::Range(0.0, 1.0));
  command->add_option("--warmup", a->warmup, "warm-up steps that are not measured")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber);
  command->add_option("--steps", a->steps, "steps measured")->capture_default_str()->check(cli::PositiveNumber);
  command->add_option("--threads", a->threads, "compute threads of the device, and again of the host; 0: all cores")
      ->check(cli::Range(0, 4096));
  command->add_option("--cluster", a->cluster,
                      "cluster description with the rates to predict from: a file, or a name in configs/clusters; "
                      "default: measure this machine");
  command->add_option("--device", a->device)->capture_default_str()->check(cli::IsMember(kDevices));
  const auto limit = [&](const std::string& name, double& value, const std::string& what) {
    command->add_option(name, value, "on the CPU: limits " + what + "; 0: no limit")->check(cli::NonNegativeNumber);
  };
  limit("--link-gb-per-s", a->link, "the copies of each direction");
  limit("--host-update-gb-per-s", a->host_update, "what updates on the host read and write");
  limit("--synchronous-gb-per-s", a->synchronous_link, "the copies of gradients by the synchronous update");
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] {
    const std::vector<Row> rows = measure_all(*a);
    if (a->json)
      fmt::print("{}\n", to_json(rows).dump());
    else
      print(rows);
  });
}

}  // namespace fp
