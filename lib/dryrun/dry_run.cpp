#include "dryrun/dry_run.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "config/run_length.h"
#include "dryrun/device_reserve.h"
#include "dryrun/dry_rig.h"
#include "dryrun/memory_watch.h"
#include "dryrun/setup.h"
#include "exec/replicas.h"
#include "model/decoder.h"
#include "sharding/arrange.h"

namespace fp {
namespace {

double gib(size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30); }

std::string describe(const Moment& m, int micro_batches) {
  std::string text = m.evaluates ? "evaluation, " : "";
  if (m.batch >= 0 && !m.evaluates) text += fmt::format("micro-batch {} of {}, ", m.batch + 1, micro_batches);
  text += m.what;
  if (m.layer >= 0) text += fmt::format(" of layer {}", m.layer);
  return text;
}

// Dry run of one rank of a mesh.
class DryRank {
 public:
  DryRank(const RunSpec& spec, const PipelinePlan& pipeline, CountingOps& ops, const Mesh& mesh, int rank)
      : spec_(spec), ops_(ops), rig_(spec, pipeline, ops, mesh, rank), sizes_(step_sizes(spec.train, mesh.dp())) {}

  Prediction run() {
    Prediction p;
    ops_.forget_scratch();
    p.parameters = rig_.model.table().logical_parameters();
    rig_.arena.enter({"initialization"});
    rig_.model.params().refresh_weights(ops_);
    // State in host memory is compared by pieces on the device, which may be all that lies there in a small model.
    if (spec_.memory.offload.optimizer == Offload::host) check_replicas(rig_.model, ops_);
    run_passes(p);
    run_update(p);
    run_evaluation();
    if (!spec_.eval.sample_prompt.empty()) run_sample_text();
    p.arena_bytes = rig_.arena.peak();
    p.used_bytes = std::max(used_, rig_.arena.most_in_use());
    p.by_class = rig_.arena.by_class_at_peak();
    p.moment = describe(rig_.arena.moment_of_peak(), sizes_.back());
    p.scratch_bytes = ops_.scratch_bytes();
    p.own_bytes = ops_.device_own_bytes();
    p.on_host = !ops_.device_memory();
    if (p.on_host)
      p.host_bytes = rig_.world->scratch_peak();
    else
      p.reserved_bytes = device_reserve(rig_.world->communicators());
    p.staging_bytes = staging_bytes(spec_, rig_.model.table());
    p.offloaded_bytes = rig_.host_arena.peak();
    p.offloaded = rig_.host_arena.by_class_at_peak();
    p.attention = ops_.attention_choices();
    return p;
  }

 private:
  // What some work sends to other ranks and copies between device and host.
  struct Moved {
    TrafficTable sent;
    std::array<int64_t, kCopyLanes> copied{};
  };
  std::array<int64_t, kCopyLanes> copied() const {
    return {ops_.copies().total(CopyLane::to_host).bytes, ops_.copies().total(CopyLane::to_device).bytes};
  }
  template <class Work>
  Moved moved_by(const Work& work) {
    rig_.world->record().reset_traffic();
    const auto before = copied();
    work();
    Moved m{rig_.world->record().traffic(), copied()};
    for (size_t i = 0; i < before.size(); ++i) m.copied[i] -= before[i];
    return m;
  }
  void accumulate(int micro_batches) { rig_.executor.accumulate(rig_.batches(micro_batches)); }

  // The first step of a run with communication.max_gradient_error, whose exact sums take memory of the host in a world
  // that sums there.
  void run_exact_sums(int micro_batches) {
    GradientGuard* const guard = rig_.executor.gradient_guard();
    if (guard == nullptr) return;
    const GradientGuardState usual = guard->state();
    GradientGuardState exact = usual;
    const ParamTable& table = rig_.model.table();
    for (size_t id = 0; id < table.size(); ++id)
      exact.bits[table[static_cast<ParamId>(id)].name] = std::numeric_limits<int>::max();
    guard->restore(exact);
    accumulate(micro_batches);
    guard->restore(usual);
    rig_.executor.complete_update();
  }

  // With several stages all micro-batches may differ. With one, only the first and the last do: the others are like the
  // second.
  void run_passes(Prediction& p) {
    const int micro_batches = sizes_.back();
    const bool whole = rig_.executor.stages() > 1;
    const size_t before = rig_.arena.in_use();
    rig_.executor.complete_update();
    p.counted = whole ? micro_batches : 1;
    run_exact_sums(static_cast<int>(p.counted));
    ops_.reset();
    const Moved moved = moved_by([&] { accumulate(static_cast<int>(p.counted)); });
    p.traffic = moved.sent;
    p.copied = moved.copied;
    p.passes = ops_.counts();
    FP_CHECK(rig_.arena.in_use() == before, "a step leaves {} bytes behind", rig_.arena.in_use() - before);
    if (whole) {
      for (size_t i = 0; i + 1 < sizes_.size(); ++i) accumulate(sizes_[i]);
    } else if (micro_batches > 1) {
      rig_.executor.complete_update();
      const Moved by_two = moved_by([&] { accumulate(2); });
      for (size_t i = 0; i < p.copied.size(); ++i)
        p.copied[i] += (micro_batches - 1) * (by_two.copied[i] - p.copied[i]);
      for (const auto& [key, t] : by_two.sent) {
        Traffic& sum = p.traffic[key];
        sum = {sum.calls + (micro_batches - 1) * (t.calls - sum.calls),
               sum.bytes + (micro_batches - 1) * (t.bytes - sum.bytes),
               sum.between_nodes + (micro_batches - 1) * (t.between_nodes - sum.between_nodes)};
      }
    }
  }

  void run_update(Prediction& p) {
    ops_.reset();
    const int64_t before = ops_.copies().total(CopyLane::on_host).bytes;
    const Moved moved = moved_by([&] {
      rig_.executor.gradient_norm();
      // Before some saves the update also sums what replicas compare.
      rig_.executor.update(spec_.optimizer, 1e-3, 1, 1.0, rig_.groups.world->size() > 1);
    });
    p.update = ops_.counts();
    p.host_updates = ops_.copies().total(CopyLane::on_host).bytes - before;
    for (size_t i = 0; i < p.copied.size(); ++i) p.copied[i] += moved.copied[i];
    for (const auto& [key, t] : moved.sent) {
      p.traffic[key].calls += t.calls;
      p.traffic[key].bytes += t.bytes;
      p.traffic[key].between_nodes += t.between_nodes;
    }
  }

  // Fewer batches use no more memory but may fragment the arena differently, by less than the memory in use: run them
  // only where that could raise the peak.
  void run_evaluation() {
    const std::vector<Batch> batches = rig_.batches(rig_.executor.evaluation_batches());
    const size_t before = rig_.arena.in_use();
    used_ = rig_.arena.most_in_use();
    rig_.arena.mark();
    rig_.executor.evaluate(batches);
    if (before + 2 * (rig_.arena.most_in_use() - before) <= rig_.arena.peak()) return;
    for (size_t n = batches.size() - 1; n > 0; --n) rig_.executor.evaluate(std::span(batches).first(n));
  }

  // As Trainer::write_sample(): every token alone.
  void run_sample_text() {
    rig_.arena.enter({"sample text"});
    const int64_t positions = sample_positions(spec_);
    Decoder decoder(rig_.model, positions);
    for (int64_t i = 0; i < positions; ++i) decoder.append(std::array<int32_t, 1>{0});
  }

  const RunSpec& spec_;
  CountingOps& ops_;
  DryRig rig_;
  std::vector<int> sizes_;
  size_t used_ = 0;  // before the evaluation
};

}  // namespace

Batch shape_only(const RunSpec& spec) {
  Batch b;
  const int64_t rows = spec.train.objective == Objective::dpo ? 2 : 1;  // per sample
  b.resize(rows * spec.train.micro_batch, spec.data.seq_len);
  if (rows == 2) b.reference_logp.assign(static_cast<size_t>(b.n), 0.0);
  if (spec.data.mask_documents) b.doc_start.back() = 1;
  return b;
}

Prediction dry_run(const RunSpec& spec, const PipelinePlan& pipeline, CountingOps& ops, const Mesh& mesh, int rank) {
  return DryRank(spec, pipeline, ops, mesh, rank).run();
}

Prediction dry_run(const RunSpec& spec, const ModelSection& section, CountingOps& ops, const Mesh& mesh, int rank) {
  RunSpec resolved = spec;
  resolved.model = section;
  return dry_run(resolved, plan_pipeline(resolved), ops, mesh, rank);
}

std::string_view largest_class(const Prediction& p) {
  const size_t most = *std::max_element(p.by_class.begin(), p.by_class.end());
  if (p.on_host && p.own_bytes > std::max({most, p.staging_bytes, p.offloaded_bytes})) return "scratch";
  if (p.on_host && p.staging_bytes > std::max(most, p.offloaded_bytes)) return "staging of saves";
  if (p.on_host && p.offloaded_bytes > most) return "offloaded tensors";
  return largest_device_class(p);
}

std::string_view largest_device_class(const Prediction& p) {
  const auto most = std::max_element(p.by_class.begin(), p.by_class.end());
  return *most > 0 ? name_of(static_cast<MemoryClass>(most - p.by_class.begin())) : "";
}

namespace {

// Returns advice for a rank that lacks this many bytes; empty when background saves do not need that much.
std::string spare_staging(const Prediction& p, size_t missing) {
  if (!p.on_host || p.staging_bytes < missing || missing == 0) return "";
  return fmt::format("; {}", kSpareStaging);
}

}  // namespace

MemoryNeed memory_need_of(const Prediction& p) { return {p.required_bytes(), p.reserved_bytes, 1}; }

void require_fit(const Prediction& p, const MemoryNeed& need, const Ops& device) {
  const int64_t available = MemoryWatch::available(device, need.sharers);
  if (available <= 0 || need.bytes <= static_cast<size_t>(available)) return;
  const size_t missing = need.bytes - static_cast<size_t>(available);
  const std::string reserved =
      need.reserved == 0 ? ""
                         : fmt::format(" (of which {:.2f} GiB are reserved for what NCCL, cuBLAS and cuDNN allocate)",
                                       gib(need.reserved));
  throw ConfigError(
      fmt::format("{} {:.2f} GiB of memory{}, mostly {}; {:.2f} GiB are available on {}, {:.2f} GiB too few{}",
                  need.sharers > 1 ? fmt::format("the {} ranks that share it need", need.sharers) : "this run needs",
                  gib(need.bytes), reserved, largest_class(p), gib(static_cast<size_t>(available)), device.name(),
                  gib(missing), spare_staging(p, missing / static_cast<size_t>(need.sharers))));
}

void require_within_budget(const Prediction& p, size_t host_bytes, const MemorySection& budget) {
  const auto require = [](size_t bytes, double budget_gib, const char* key, const std::string& who,
                          const std::string& what) {
    if (budget_gib == 0 || gib(bytes) <= budget_gib) return;
    throw ConfigError(
        fmt::format("{} {:.4g} GiB of {}; the budget {} is {:.6g} GiB", who, gib(bytes), what, key, budget_gib));
  };
  require(p.budgeted_device_bytes(), budget.device_gib, "memory.device_gib", "a rank needs",
          fmt::format("device memory, mostly {}", largest_device_class(p)));
  require(host_bytes, budget.host_gib, "memory.host_gib", "the ranks of a node need",
          "host memory, for offloaded tensors and saves");
}

double bytes_between_nodes(const RunSpec& spec, CountingOps& ops) {
  const ParallelSection& parallel = spec.parallel;
  const int64_t ranks = parallel.pipeline.ranks * parallel.data * parallel.sequence * parallel.tensor;
  const int64_t each = ranks_of_node(parallel);
  if (each == 0 || each >= ranks) return 0;
  RunSpec resolved = spec;
  const Mesh mesh = arrange(resolved, static_cast<int>(ranks), ArrangedBy::plan);
  PipelinePlan pipeline = plan_pipeline(resolved);
  if (pipeline.placement.stages() > 1) pipeline.prepare(step_sizes(resolved.train, mesh.dp()));  // once for all ranks
  constexpr int64_t kMostRanks = 256;
  const int64_t nodes = (ranks + each - 1) / each, counted = std::min(nodes, std::max<int64_t>(1, kMostRanks / each));
  double sum = 0;
  for (int64_t i = 0; i < counted; ++i) {
    const int64_t first = i * nodes / counted * each;
    for (int64_t rank = first; rank < std::min(first + each, ranks); ++rank)
      sum += static_cast<double>(
          sent_between_nodes(dry_run(resolved, pipeline, ops, mesh, static_cast<int>(rank)).traffic));
  }
  return sum / static_cast<double>(counted);
}

std::string describe(const Prediction& p, const RunSpec& spec) {
  std::string text = fmt::format("parameters            {:>12}\n\nmemory at the peak of a step, GiB\n", p.parameters);
  size_t sum = 0;
  for (int c = 0; c < kMemoryClasses; ++c) {
    const size_t bytes = p.by_class[static_cast<size_t>(c)];
    sum += bytes;
    if (bytes > 0) text += fmt::format("  {:<20}{:>12.3f}\n", name_of(static_cast<MemoryClass>(c)), gib(bytes));
  }
  if (p.arena_bytes > sum) text += fmt::format("  {:<20}{:>12.3f}\n", "gaps", gib(p.arena_bytes - sum));
  text += fmt::format("  {:<20}{:>12.3f}\n", "arena", gib(p.arena_bytes));
  text += fmt::format("  reached in            {}\n", p.moment);
  if (p.own_bytes > 0) text += fmt::format("  {:<20}{:>12.3f}\n", "scratch", gib(p.own_bytes));
  if (p.host_bytes > 0) text += fmt::format("  {:<20}{:>12.3f}\n", "communication", gib(p.host_bytes));
  if (p.reserved_bytes > 0) text += fmt::format("  {:<20}{:>12.3f}\n", "kept for libraries", gib(p.reserved_bytes));
  for (int c = 0; c < kMemoryClasses; ++c)
    if (const size_t bytes = p.offloaded[static_cast<size_t>(c)]; bytes > 0)
      text += fmt::format("  {:<20}{:>12.3f}{}\n", fmt::format("offloaded {}", name_of(static_cast<MemoryClass>(c))),
                          gib(bytes), p.on_host ? "" : "  of host memory");
  if (p.staging_bytes > 0)
    text += fmt::format("  {:<20}{:>12.3f}{}\n", "staging of saves", gib(p.staging_bytes),
                        p.on_host ? "" : "  of host memory");
  text += '\n';
  const auto n = static_cast<double>(p.counted);
  const auto tokens = static_cast<double>(spec.train.micro_batch * tokens_per_sample(spec));
  text += fmt::format("one micro-batch of {} {}x {} tokens\n", spec.train.micro_batch,
                      spec.train.objective == Objective::dpo ? "pairs x 2 " : "", spec.data.seq_len);
  text += fmt::format("  {:<20}{:>12.3f}\n  {:<20}{:>12.3f}\n", "TFLOP", p.passes.flops() / n / 1e12,
                      "of these in GEMMs", p.passes.gemm_flops() / n / 1e12);
  text += fmt::format("  {:<20}{:>12.3f}\n", "GFLOP per token", p.passes.flops() / n / tokens / 1e9);
  text += fmt::format("micro-batches a step  {:>12}\n",
                      spec.train.global_batch / spec.train.micro_batch / std::max<int64_t>(spec.parallel.data, 1));
  for (const CopyLane lane : {CopyLane::to_device, CopyLane::to_host})
    if (const int64_t bytes = p.copied[index_of(lane)]; bytes > 0)
      text +=
          fmt::format("  copied {:<15}{:>10.3f} MiB a step\n", name_of(lane), static_cast<double>(bytes) / (1 << 20));
  if (p.host_updates > 0)
    text += fmt::format("  updated by the host   {:>10.3f} MiB a step, read and written\n",
                        static_cast<double>(p.host_updates) / (1 << 20));
  if (p.traffic.empty()) return text;
  text += "\nsent by the rank in a step\n";
  for (const auto& [key, t] : p.traffic)
    if (key.second != CommKind::host && key.second != CommKind::recv)
      text += fmt::format("  {:<34}{:>12.3f} MiB in {} calls\n", fmt::format("{}: {}", key.first, name_of(key.second)),
                          static_cast<double>(t.bytes) / (1 << 20), t.calls);
  return text;
}

std::string explain(const Prediction& p) {
  std::string text;
  for (const std::string& how : p.attention) text += fmt::format("attention is run by   {}\n", how);
  return text;
}

}  // namespace fp
