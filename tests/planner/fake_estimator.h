// An estimator with simple formulas, whose quick estimates have errors close to the largest that are allowed.
#pragma once

#include <functional>

#include "config/model_facts.h"
#include "planner/estimate.h"
#include "planner/plan.h"

namespace fp {

class FakeEstimator final : public PlanEstimator {
 public:
  explicit FakeEstimator(double memory_gib) : available_(static_cast<int64_t>(memory_gib * (1 << 30))) {}

  Estimate quick_estimate(const RunSpec& s, int ranks) override {
    ++quick_estimates;
    Estimate e = exact(s, ranks);
    const Plan p = plan_of(s);
    // The same error for all variants that save memory, so that quick estimates rank these correctly.
    const size_t luck = std::hash<std::string>()(
        fmt::format("{} {} {} {} {} {}", p.tensor, p.sequence, p.pipeline, p.schedule, p.chunks, p.micro_batch));
    const double error = 1 + 0.08 * (static_cast<double>(luck % 1000) / 500 - 1);
    for (double* t : {&e.time.total, &e.time.compute, &e.time.exposed, &e.time.bubble, &e.time.update}) *t *= error;
    e.memory.bytes = static_cast<int64_t>(static_cast<double>(e.memory.bytes) * error);
    return e;
  }
  Estimate estimate(const RunSpec& s, int ranks) override {
    ++estimates;
    return exact(s, ranks);
  }
  RankMemory memory(const RunSpec& s, int ranks) override { return exact(s, ranks).memory; }

  Estimate exact(const RunSpec& s, int ranks) const {
    const Plan p = plan_of(s);
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const double micro_batches = real(s.train.global_batch) / real(p.data * p.micro_batch);
    const double again = p.recompute == Recompute::full ? 1.33 : p.recompute == Recompute::selective ? 1.05 : 1;
    const double tokens = real(p.micro_batch * s.data.seq_len);
    Estimate e;
    e.spec = s;
    e.ranks = ranks;
    e.time.compute = again * model_flops_per_token(s.model, s.data.seq_len) * tokens * micro_batches * 1e-13 /
                     real(p.tensor * p.sequence * p.pipeline) * (1 + 100 * real(p.tensor) / tokens);
    e.time.exposed =
        0.05 * e.time.compute * (real(p.tensor * p.sequence) - (p.megatron_sp ? 0.99 : 1)) +
        (p.zero_stage >= 2 ? 0.01 * (real(p.zero_stage) - 0.5 * p.node_weights) * micro_batches : 0) * e.time.compute -
        (p.gradient_bits > 0 ? 0.15 * (real(p.data) - 2) / real(p.data) * e.time.compute : 0);
    const double filling = p.schedule == PipelineSchedule::zb_v    ? 0.1
                           : p.schedule == PipelineSchedule::zb_h1 ? 0.4
                                                                   : 1 / real(p.chunks + 1);
    e.time.bubble = e.time.compute * real(p.pipeline - 1) * filling / micro_batches;
    const double parameters = real(parameter_count(s.model)) / real(p.tensor * p.pipeline);
    const double sharers = real(p.data * p.sequence);
    const bool away = p.optimizer == Offload::host;
    e.time.update = (away ? 5e-10 : 1e-11) * parameters / (p.zero_stage > 0 ? sharers : 1);
    e.time.total = e.time.compute + e.time.exposed + e.time.bubble + e.time.update;
    const auto part = [&](int stage) { return p.zero_stage >= stage ? 1 / sharers : 1; };
    const double kept = p.recompute == Recompute::full ? 2 : p.recompute == Recompute::selective ? 24 : 34;
    const double activations = kept * tokens * real(s.model.hidden * s.model.layers) / real(p.tensor * p.sequence) *
                               (p.megatron_sp || p.tensor == 1 ? 1 : 1.4);
    e.memory.bytes = static_cast<int64_t>(parameters * (2 * part(3) + 4 * part(2) + (away ? 0 : 12) * part(1) +
                                                        0.5 * p.node_weights + 0.1 * (p.gradient_bits > 0)) +
                                          activations);
    e.memory.available = available_;
    e.memory.prediction.by_class[static_cast<size_t>(MemoryClass::activations)] = static_cast<size_t>(activations);
    return e;
  }

  int quick_estimates = 0, estimates = 0;

 private:
  const int64_t available_;
};

}  // namespace fp
