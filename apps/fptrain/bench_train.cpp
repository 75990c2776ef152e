#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "bench.h"
#include "bench/step_benchmark.h"
#include "device.h"
#include "dryrun/setup.h"
#include "ops/backends.h"

namespace fp {
namespace {

struct TrainBenchArguments {
  BenchModel model;
  std::string recompute = "none", device = "auto";
  int warmup = 2, steps = 5, threads = 0;
  double link = 0;
  bool json = false, profile = false;
};

nlohmann::json to_json(const TrainBenchArguments& a, const RunSpec& spec, const StepBenchmark& b) {
  nlohmann::json ops = nlohmann::json::object();
  for (const auto& [name, t] : b.profile.by_op) ops[name] = {{"calls", t.calls}, {"ms", t.seconds * 1e3}};
  return {{"model", spec.model.name},
          {"precision", a.model.precision},
          {"recompute", a.recompute},
          {"batch", a.model.batch},
          {"seq_len", a.model.seq_len},
          {"threads", max_threads()},
          {"tokens_per_s", b.tokens_per_s},
          {"step_ms", b.median_seconds * 1e3},
          {"device", b.device},
          {"model_gflops_per_s", b.tokens_per_s * b.model_flops_per_token / 1e9},
          {"mfu", b.mfu},
          {"peak_gflops_per_s", b.peak.flops / 1e9},
          {"peak_from", b.peak.source},
          {"predicted_bytes", b.predicted_bytes},
          {"peak_bytes", b.peak_bytes},
          {"gemm_alone_ms", b.gemm_alone_seconds * 1e3},
          {"profile_step_ms", b.profile_seconds * 1e3},
          {"profile", ops}};
}

void print(const RunSpec& spec, const StepBenchmark& b) {
  const auto [low, high] = std::minmax_element(b.step_seconds.begin(), b.step_seconds.end());
  fmt::print("{}\n", describe_model(spec.model));
  fmt::print("step {:.1f} ms (median of {}; {:.1f} to {:.1f}), {:.0f} tokens/s, {:.0f} model GFLOP/s\n",
             b.median_seconds * 1e3, b.step_seconds.size(), *low * 1e3, *high * 1e3, b.tokens_per_s,
             b.tokens_per_s * b.model_flops_per_token / 1e9);
  fmt::print("MFU {:.1f}%: tokens/s x {:.4g} model GFLOP per token / {:.0f} GFLOP/s ({})\n", 100 * b.mfu,
             b.model_flops_per_token / 1e9, b.peak.flops / 1e9, b.peak.source);
  fmt::print("model FLOPs: 6 per weight of every product + 12 x heads x head_dim x mean keys, per layer\n");
  fmt::print("peak memory {:.3f} GiB, predicted {:.3f} GiB\n", static_cast<double>(b.peak_bytes) / (1 << 30),
             static_cast<double>(b.predicted_bytes) / (1 << 30));
  if (b.profile.by_op.empty()) return;
  std::vector<std::pair<std::string, OpTime>> ops(b.profile.by_op.begin(), b.profile.by_op.end());
  std::sort(ops.begin(), ops.end(), [](const auto& x, const auto& y) { return x.second.seconds > y.second.seconds; });
  fmt::print("\n{:<26}{:>8}{:>12}{:>9}\n", "op", "calls", "ms", "share");
  for (const auto& [name, t] : ops)
    fmt::print("{:<26}{:>8}{:>12.2f}{:>8.1f}%\n", name, t.calls, t.seconds * 1e3, 100 * t.seconds / b.profile_seconds);
  fmt::print("\nthe step's matrix products alone {:.1f} ms: the step takes {:.2f} times as long\n",
             b.gemm_alone_seconds * 1e3, b.median_seconds / b.gemm_alone_seconds);
}

}  // namespace

void add_bench_train(cli::App& bench) {
  const auto a = std::make_shared<TrainBenchArguments>();
  cli::App* command = bench.add_subcommand("train", "Time whole training steps on random tokens");
  add_model_options(*command, a->model);
  command->add_option("--recompute", a->recompute)
      ->capture_default_str()
      ->check(cli::IsMember({"none", "selective", "full"}));
  command->add_option("--warmup", a->warmup, "warm-up steps that are not measured")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber);
  command->add_option("--steps", a->steps, "steps measured")->capture_default_str()->check(cli::PositiveNumber);
  command->add_option("--threads", a->threads, "0: all cores")->check(cli::Range(0, 4096));
  command->add_option("--device", a->device)->capture_default_str()->check(cli::IsMember(kDevices));
  command
      ->add_option("--link-gb-per-s", a->link,
                   "on the CPU: rate of copies to and from what memory.offload keeps in host memory; 0: no limit")
      ->check(cli::NonNegativeNumber);
  command->add_flag("--profile", a->profile, "also time one step by op, and its matrix products alone");
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] {
    BenchModel model = a->model;
    model.sets.insert(model.sets.begin(), "memory.recompute=" + a->recompute);
    const RunSpec spec = bench_spec(model);
    auto ops = open_device(device_named(a->device), a->threads);
    if (a->link > 0 && ops->device_memory()) throw ConfigError("--link-gb-per-s is for --device cpu");
    if (a->link > 0) ops = make_cpu_ops({.bytes_per_s = {a->link * 1e9, a->link * 1e9}});
    const auto counting = make_counting_ops(ops.get());
    const StepBenchmark b = benchmark_step(spec, a->warmup, a->steps, a->profile, *ops, *counting);
    if (a->json)
      fmt::print("{}\n", to_json(*a, spec, b).dump());
    else
      print(spec, b);
  });
}

}  // namespace fp
