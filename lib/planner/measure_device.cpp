#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/median.h"
#include "base/parallel.h"
#include "base/stopwatch.h"
#include "bench/op_timer.h"
#include "bench/step_rig.h"
#include "config/load.h"
#include "dryrun/dry_run.h"
#include "planner/costs.h"
#include "planner/measure.h"

namespace fp {
namespace {

// A model to train. On a GPU all sizes except layers and samples are kGpuScale times as large.
struct Probe {
  std::string_view family;
  int64_t layers, hidden, ffn, vocab, batch, seq_len;
  int64_t micro_batches = 1;
};
constexpr int64_t kGpuScale = 4;

// From sizes that barely keep a core busy to sizes that are trained on such a machine, in every dimension.
const std::vector<Probe> kProbes = {
    {"gpt", 2, 128, 512, 512, 8, 128},      {"llama", 2, 256, 688, 4096, 4, 256},
    {"gpt", 2, 512, 2048, 8192, 1, 512},    {"llama", 2, 512, 1408, 2048, 1, 128, 2},
    {"gpt", 1, 1024, 4096, 4096, 1, 256},   {"llama", 2, 256, 768, 1024, 1, 1024},
    {"gpt", 2, 128, 512, 16384, 1, 128, 2}, {"gpt", 1, 768, 3072, 50304, 1, 256},
    {"llama", 1, 1024, 2816, 8192, 4, 256},
};
const std::vector<Probe> kQuickProbes = {
    {"gpt", 2, 128, 512, 512, 2, 128}, {"llama", 1, 256, 704, 4096, 1, 256}, {"gpt", 1, 512, 2048, 2048, 1, 512}};
const Probe kCheck = {"llama", 3, 384, 1024, 3000, 2, 256};  // validation: the rates are not fitted to it

RunSpec spec_of(const Probe& p, DType compute, int64_t scale) {
  RunSpec spec;
  ModelSection& m = spec.model;
  m.family = named<Family>(p.family).value();
  m.layers = p.layers;
  m.hidden = scale * p.hidden;
  m.heads = m.hidden / 64;
  m.kv_heads = m.traits().shared_kv_heads ? m.heads / 2 : m.heads;
  m.ffn = scale * p.ffn;
  m.vocab = scale * p.vocab;
  m.max_position = spec.data.seq_len = scale * p.seq_len;
  m.tied_embeddings = m.traits().learned_positions;
  spec.train.micro_batch = p.batch;
  spec.train.global_batch = p.batch * p.micro_batches;
  spec.precision.compute = compute;
  resolve(spec);
  return spec;
}

using WorkKey = std::vector<std::tuple<std::string_view, double, double, int64_t, int64_t, int64_t, DType>>;

WorkKey key_of(const std::vector<OpWork>& works) {
  WorkKey key;
  for (const OpWork& w : works) key.emplace_back(w.op, w.flops, w.bytes, w.m, w.n, w.k, w.dtype);
  return key;
}

// Returns the works and mean times of the timed calls of a step; equal calls become one sample.
std::vector<OpSample> samples_of(const std::vector<TimedCall>& calls, const std::vector<std::vector<double>>& seconds) {
  std::map<WorkKey, OpSample> samples;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::vector<OpWork>& works = calls[i].works;
    if (works.empty()) continue;
    OpSample& sum = samples.try_emplace(key_of(works), OpSample{works, 0, 0}).first->second;
    sum.seconds += median(seconds[i]);
    ++sum.calls;
  }
  std::vector<OpSample> list;
  for (auto& [key, s] : samples) {
    s.seconds /= static_cast<double>(s.calls);
    list.push_back(std::move(s));
  }
  return list;
}

class Measurement {
 public:
  Measurement(Ops& ops, Group& together, bool quick)
      : ops_(ops), together_(together), quick_(quick), on_gpu_(ops.device_memory().has_value()) {
    if (on_gpu_) empty_call_ = empty_call();
  }

  std::vector<OpSample> samples;
  std::vector<CheckedStep> steps;
  std::vector<std::vector<OpWork>> works;  // by step

  // Trains the probes; with `quick_`, those after the first only until limit_s.
  void train_all(const std::vector<Probe>& probes, double limit_s) {
    const auto start = std::chrono::steady_clock::now();
    for (const Probe& probe : probes) {
      const double taken = average(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      if (quick_ && !steps.empty() && taken >= limit_s) {
        log::info("the device is busy: stopping after {} of {} models in {:.0f} s", steps.size() / 2, probes.size(),
                  taken);
        return;
      }
      for (const DType compute : {DType::bf16, DType::f32}) train(probe, compute, true);
    }
  }

  // Trains one probe and adds its results to `steps`, `works` and, if `fitted`, `samples`.
  void train(const Probe& probe, DType compute, bool fitted) {
    const RunSpec spec = spec_of(probe, compute, on_gpu_ ? kGpuScale : 1);
    const std::string name = fmt::format("{} {} x {}, {} x {} tokens, {}", probe.family, spec.model.layers,
                                         spec.model.hidden, spec.train.micro_batch, spec.data.seq_len, compute);
    log::info("measuring {}", name);
    const auto counting = make_counting_ops(&ops_);
    const Prediction need = dry_run(spec, spec.model, *counting);
    ops_.reserve_scratch(need.scratch_bytes);
    Arena arena(ops_.allocate(need.arena_bytes, spec.memory.huge_pages), need.arena_bytes);
    StepRig rig(spec, arena, ops_);
    OpTimes times(ops_);
    rig.initialize();
    rig.step();
    together_.barrier();
    const double estimate = average(seconds_of([&] { rig.step(); }));
    const int count = static_cast<int>(std::clamp(budget() / estimate, quick_ ? 2.0 : 3.0, 30.0));
    std::vector<TimedCall> calls;
    std::vector<std::vector<double>> seconds;
    std::vector<double> whole;
    times.log_to(&calls);
    together_.barrier();
    for (int i = 0; i < count; ++i) {
      calls.clear();
      whole.push_back(seconds_of([&] { rig.step(); }));
      seconds.resize(calls.size());
      for (size_t c = 0; c < calls.size(); ++c) seconds[c].push_back(own_seconds(calls[c].seconds));
    }
    std::vector<OpWork>& of_calls = works.emplace_back();
    for (const TimedCall& c : calls) of_calls.insert(of_calls.end(), c.works.begin(), c.works.end());
    std::vector<OpSample> of_step = samples_of(calls, seconds);
    const double step = average(median(whole));
    average(of_step, step);
    if (fitted) samples.insert(samples.end(), of_step.begin(), of_step.end());
    steps.push_back({name, step, 0, fitted});
  }

  // Times what ranks do to quantized messages, which the probes do not send. Adds to `samples`.
  void quantize() {
    log::info("measuring quantization");
    OpTimer timer(ops_);
    constexpr int64_t kParts = 4;
    constexpr double kShare = 0.01;  // of a step, that these calls count as much as small ops
    for (const BlockFormat& f : {BlockFormat{.bits = 8}, BlockFormat{.bits = 4}})
      for (const int64_t n : {int64_t{1} << 14, int64_t{1} << (on_gpu_ ? 24 : quick_ ? 18 : 20)}) {
        const Tensor parts = timer.operand(DType::u8, {kParts, packed_bytes(f, n)}), one = parts.slice(0, 1);
        const auto whole = [](const Tensor& t, int64_t sums) { return t.reshaped({t.rows() / sums, sums, t.cols()}); };
        for (const DType t : {DType::bf16, DType::f32}) {
          const Tensor x = timer.operand(t, {kParts, n});
          time(timer, calls::Quantize{parts, x, f}, kShare);
          time(timer, calls::SumQuantized{x, whole(parts, kParts), f}, kShare);
          time(timer, calls::SumQuantized{x.slice(0, 1), whole(parts, 1), f}, kShare);
        }
        time(timer, calls::RequantizeSums{timer.operand(DType::u8, one.shape), whole(parts, 1), n, f, f}, kShare);
        timer.drop();
      }
  }

  // Times wide products of large operands, as in models of billions of parameters. On CPUs, where the operands of the
  // probes are small, rates for these would be extrapolated. Adds to `samples`.
  void products() {
    if (on_gpu_) return;
    constexpr double kShare = 0.3;  // of a step
    const int64_t tokens = quick_ ? 512 : 4096, width = quick_ ? 2048 : 4096;
    log::info("measuring products of {} x {} x {}", tokens, width, width);
    OpTimer timer(ops_);
    for (const DType t : {DType::bf16, DType::f32}) {
      const Tensor x = timer.operand(t, {tokens, width}), w = timer.operand(t, {width, width}),
                   y = timer.operand(t, {tokens, width}), dw = timer.operand(DType::f32, {width, width});
      time(timer, calls::Linear{y, x, w}, kShare);
      time(timer, calls::LinearBackwardInput{x, y, w}, kShare);
      time(timer, calls::LinearBackwardWeight{dw, y, x, Write::set}, kShare);
      timer.drop();
    }
  }

  // Times attention over more tokens than the probes have, so that keys do not stay in a core's cache, and with two
  // head sizes: without these samples the rates for long sequences are a guess. Adds to `samples`.
  void attention() {
    for (const int64_t head_dim : {64, 128}) attention_of(head_dim);
  }
  void attention_of(int64_t head_dim) {
    constexpr int64_t kHeads = 4;
    constexpr double kShare = 0.1;  // of a step
    const int64_t length = on_gpu_ ? (quick_ ? 8192 : 16384) : quick_ ? 2048 : 8192;
    log::info("measuring attention over {} tokens with heads of {}", length, head_dim);
    OpTimer timer(ops_);
    for (const DType t : {DType::bf16, DType::f32}) {
      const auto operand = [&] { return timer.operand(t, {1, length, kHeads, head_dim}); };
      const Tensor q = operand(), k = operand(), v = operand(), o = operand(), d_o = operand(), dq = operand(),
                   dk = operand(), dv = operand(), lse = timer.operand(DType::f32, {1, kHeads, length});
      AttentionSpec spec;
      spec.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
      const calls::Attention forward{.o = o, .lse = lse, .q = q, .k = k, .v = v, .spec = spec};
      const calls::AttentionBackward backward{
          .dq = dq, .dk = dk, .dv = dv, .d_o = d_o, .q = q, .k = k, .v = v, .o = o, .lse = lse, .spec = spec};
      ops_.reserve_scratch(std::max(ops_.scratch_of(forward), ops_.scratch_of(backward)));
      time(timer, forward, kShare);
      time(timer, backward, kShare);
      timer.drop();
    }
  }

  double average(double mine) {
    together_.all_reduce(std::span(&mine, 1));
    return mine / together_.size();
  }

 private:
  template <class Call>
  void time(OpTimer& timer, const Call& call, double share) {
    together_.barrier();
    const double seconds = average(timer.seconds([&] { run(ops_, call); }, quick_ || !on_gpu_ ? 3 : 5));
    samples.push_back({{cost(call)}, seconds, 1, share});
  }
  static void run(Ops& ops, const calls::Linear& c) { ops.linear(c); }
  static void run(Ops& ops, const calls::LinearBackwardInput& c) { ops.linear_backward_input(c); }
  static void run(Ops& ops, const calls::LinearBackwardWeight& c) { ops.linear_backward_weight(c); }
  static void run(Ops& ops, const calls::Attention& c) { ops.attention(c); }
  static void run(Ops& ops, const calls::AttentionBackward& c) { ops.attention_backward(c); }
  static void run(Ops& ops, const calls::Quantize& c) { ops.quantize(c); }
  static void run(Ops& ops, const calls::SumQuantized& c) { ops.sum_quantized(c); }
  static void run(Ops& ops, const calls::RequantizeSums& c) { ops.requantize_sums(c); }

  double budget() const { return quick_ ? 0.3 : 2.0; }  // seconds of measured steps

  // Averages the samples over all ranks. On CPUs a step also spends time between ops, and in delays that a median
  // hides: ops are scaled so that together they take as long as the step.
  void average(std::vector<OpSample>& of_step, double step) {
    std::vector<double> seconds;
    for (const OpSample& s : of_step) seconds.push_back(s.seconds);
    together_.all_reduce(seconds);
    double sum = 0;
    for (size_t i = 0; i < seconds.size(); ++i) {
      of_step[i].seconds = seconds[i] / together_.size();
      sum += static_cast<double>(of_step[i].calls) * of_step[i].seconds;
    }
    for (OpSample& s : of_step) {
      s.share = static_cast<double>(s.calls) * s.seconds / sum;
      if (!on_gpu_) s.seconds *= step / sum;
    }
  }

  // Time to launch a kernel and wait for it, which back-to-back calls do not pay.
  double empty_call() {
    Arena arena(ops_.allocate(Arena::kAlignment), Arena::kAlignment);
    const ArenaTensor one = arena.alloc(DType::f32, {1});
    std::vector<double> seconds(201);
    for (double& s : seconds)
      s = seconds_of([&] {
        ops_.zero({one});
        ops_.synchronize();
      });
    return median(seconds);
  }
  double own_seconds(double seconds) const { return std::max(seconds - empty_call_, 0.1 * seconds); }

  Ops& ops_;
  Group& together_;
  bool quick_, on_gpu_;
  double empty_call_ = 0;
};

// Bytes per second between device and host in each direction, while both lanes copy.
double lane_rate(Ops& ops, int64_t n, int repeats) {
  const size_t bytes = 2 * (static_cast<size_t>(n) * sizeof(float) + Arena::kAlignment);
  Arena device(ops.allocate(bytes), bytes), host(ops.allocate_host(bytes), bytes, Residence::host);
  const ArenaTensor in = device.alloc(DType::f32, {n}), out = device.alloc(DType::f32, {n}),
                    from = host.alloc(DType::f32, {n}), to = host.alloc(DType::f32, {n});
  for (const ArenaTensor* const t : {&in, &out}) ops.zero({*t});
  std::memset(from->data, 0, from->bytes());
  const auto both = [&] {
    ops.copies().start(in, from);
    ops.copies().start(to, out);
    ops.copies().wait_for_all();
    ops.synchronize();
  };
  both();  // touches the pages
  std::vector<double> seconds(static_cast<size_t>(repeats));
  for (double& s : seconds) s = seconds_of(both);
  return static_cast<double>(from->bytes()) / median(seconds);
}

// Bytes per second that an update by the host's cores reads and writes, while both lanes copy.
double host_update_rate(Ops& ops, int64_t n, int repeats) {
  constexpr size_t kSlots = 7;
  const size_t bytes = kSlots * (static_cast<size_t>(n) * sizeof(float) + Arena::kAlignment);
  Arena device(ops.allocate(bytes / 2), bytes / 2), host(ops.allocate_host(bytes), bytes, Residence::host);
  const ArenaTensor in = device.alloc(DType::f32, {n}), out = device.alloc(DType::f32, {n});
  ops.zero({out});
  std::vector<ArenaTensor> t;
  for (size_t i = 0; i < kSlots - 1; ++i) {
    t.push_back(host.alloc(DType::f32, {n}));
    std::memset(t.back()->data, 0, t.back()->bytes());
  }
  const ArenaTensor weights = host.alloc(DType::bf16, {n});
  const calls::AdamW update{t[0], {t[1], t[2]}, t[3], weights, {.lr = 1e-3}};
  const auto run = [&] {
    const CopyTicket updated = ops.start_on_host(update);
    for (int i = 0; i < 3; ++i) {  // as many slots each way as are updated
      ops.copies().start(in, t[4]);
      ops.copies().start(t[5], out);
    }
    ops.copies().wait(updated);
    ops.synchronize();
  };
  const auto settle = [&] {
    ops.copies().wait_for_all();
    ops.synchronize();
  };
  run();  // touches the pages
  settle();
  std::vector<double> seconds(static_cast<size_t>(repeats));
  for (double& s : seconds) {
    s = seconds_of(run);
    settle();
  }
  return cost(update).bytes / median(seconds);
}

// Bytes per second, read plus written, of a copy larger than any cache; and between device and host.
std::pair<double, double> copy_rates(Ops& ops, bool quick) {
  const int64_t n = (ops.device_memory() ? int64_t{1} << 28 : int64_t{1} << 25) / (quick ? 4 : 1);
  OpTimer timer(ops);
  const Tensor x = timer.operand(DType::f32, {n}), y = timer.operand(DType::f32, {n});
  const int repeats = quick ? 1 : 5;
  const double copy = timer.seconds([&] { ops.copy({y, x}); }, repeats);
  const auto moved = static_cast<double>(x.bytes() + y.bytes());
  timer.drop();
  return {moved / copy, lane_rate(ops, n / 4, repeats)};
}

}  // namespace

DeviceRates measure_device(Ops& ops, Group& together, int ranks, bool quick, double limit_s) {
  DeviceRates r;
  r.profile.ranks = ranks;
  r.profile.threads = ops.device_memory() ? 0 : max_threads();
  Measurement m(ops, together, quick);
  m.train_all(quick ? kQuickProbes : kProbes, limit_s);
  if (!quick)
    for (const DType compute : {DType::bf16, DType::f32}) m.train(kCheck, compute, false);
  m.products();
  m.attention();
  m.quantize();
  log::info("fitting rates to what was measured");
  together.barrier();
  const double peak_bf16 = m.average(ops.peak_flops(DType::bf16)), peak_fp32 = m.average(ops.peak_flops(DType::f32));
  FittedRates fitted = fit_rates(m.samples, {peak_bf16, peak_fp32});
  r.profile.products = std::move(fitted.products);
  r.profile.ops = std::move(fitted.ops);
  r.errors = std::move(fitted.errors);

  ClusterSpec alone;
  alone.ranks_per_node = ranks;
  alone.profiles = {r.profile};
  const CostModel costs(alone, ranks);
  r.steps = std::move(m.steps);
  for (size_t i = 0; i < r.steps.size(); ++i)
    for (const OpWork& w : m.works[i]) r.steps[i].predicted += costs.op_seconds(w);

  log::info("measuring products and copies");
  together.barrier();
  r.profile.peak_tflops_bf16 = m.average(peak_rate(ops, DType::bf16).flops) * 1e-12;
  together.barrier();
  r.profile.peak_tflops_fp32 = m.average(peak_rate(ops, DType::f32).flops) * 1e-12;
  together.barrier();
  const auto [copy, lane] = copy_rates(ops, quick);
  r.copy_gb_per_s = m.average(copy) * 1e-9;
  r.host_gb_per_s = m.average(lane) * 1e-9;
  if (!ops.device_memory()) return r;  // there the host's cores are the device
  together.barrier();
  r.host_update_gb_per_s = m.average(host_update_rate(ops, int64_t{1} << (quick ? 22 : 26), quick ? 1 : 5)) * 1e-9;
  return r;
}

}  // namespace fp
