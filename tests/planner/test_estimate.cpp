// Estimated times of whole steps.
#include <catch2/catch.hpp>
#include <numeric>

#include "config/load.h"
#include "config/model_facts.h"
#include "dryrun/dry_run.h"
#include "exec/matrix_update.h"
#include "optim/muon.h"
#include "planner/device_share.h"
#include "planner/estimate.h"
#include "sharding/arrange.h"
#include "small_cluster.h"

using namespace fp;

namespace {

RunSpec spec_of(const std::string& model, const std::string& parallel, const std::string& train,
                const std::string& rest = "") {
  return parse_run_spec(fmt::format("model: {{{}}}\ndata: {{seq_len: 64}}\ntrain: {{{}}}\nparallel: {{{}}}\n{}", model,
                                    train, parallel, rest),
                        "test");
}

const std::string kGpt = "family: gpt, layers: 8, hidden: 256, heads: 8, vocab: 1024, max_position: 64";
const std::string kLlama =
    "family: llama, layers: 8, hidden: 256, heads: 8, kv_heads: 4, ffn: 640, vocab: 1000, max_position: 64";

// The sum of the times of all counted works.
double priced(const Counts& counts, const CostModel& costs) {
  double sum = 0;
  for (const auto& [op, c] : counts.by_op) {
    OpWork work{op, c.flops, c.bytes, 0, 0, 0, DType::bf16};
    if (op.starts_with("linear")) work.m = work.n = work.k = 1;
    sum += costs.op_seconds(work);
  }
  return sum;
}

}  // namespace

TEST_CASE("a step without communication takes the sum of its op times", "[planner]") {
  const ClusterSpec cluster = small_cluster();
  for (const std::string& model : {kGpt, kLlama})
    for (const int micro_batches : {1, 2, 3, 7})
      for (const std::string recompute : {"none", "selective", "full"}) {
        const std::string optimizer = recompute == "none" ? "muon" : "adamw";
        const RunSpec spec =
            spec_of(model, "", fmt::format("global_batch: {}, micro_batch: 2", 2 * micro_batches),
                    fmt::format("memory: {{recompute: {}}}\noptimizer: {{kind: {}}}", recompute, optimizer));
        const auto ops = make_counting_ops();
        const Prediction p = dry_run(spec, spec.model, *ops);
        const CostModel costs(cluster, 1);
        const Estimate e = Estimator(cluster).estimate(spec, 1);
        CAPTURE(model, micro_batches, recompute);
        // The first micro-batch writes gradients, the others add to them and so move more bytes.
        CHECK(e.time.compute == Approx(micro_batches * priced(p.passes, costs)).epsilon(0.03));
        if (micro_batches == 1) CHECK(e.time.compute == Approx(priced(p.passes, costs)).epsilon(1e-9));
        CHECK(e.time.update == Approx(priced(p.update, costs)).epsilon(1e-9));
        ParamTable table;
        declare_parameters(spec.model, table);
        double products = 0;
        for (const MuonMatrix& m : muon_matrices(table)) products += orthogonalize_flops(m.rows, m.cols);
        CHECK(p.update.gemm_flops() == (optimizer == "muon" ? products : 0));
        CHECK(e.time.total == Approx(e.time.compute + e.time.update).epsilon(1e-9));
        CHECK(e.time.exposed == 0);
        CHECK(e.time.bubble == 0);
      }
}

TEST_CASE("the bubble of a pipeline equals that of its schedule", "[planner]") {
  ClusterSpec cluster = small_cluster();
  cluster.profiles[0].ops = {{"other", "", 0, 0, 0}};  // products alone: F : B : W = 1 : 1 : 1
  cluster.profiles[0].links = {{"ranks", "any", 0, 1e9}};
  const std::string model = "family: llama, layers: 16, hidden: 256, heads: 8, ffn: 1024, vocab: 16, max_position: 64";
  for (const auto& [schedule, bubble] : {std::pair<std::string, double>{"1f1b", 3.0 / 11},
                                         {"interleaved", 1.5 / 9.5},
                                         {"zb-h1", 1.0 / 9},
                                         {"zb-v", 0.5 / 8.5},
                                         {"bitpipe, w_pass: true", 0.5 / 24.5}}) {
    const RunSpec spec =
        spec_of(model, "pipeline: {ranks: 4, schedule: " + schedule + "}", "global_batch: 8, micro_batch: 1");
    const Estimate e = Estimator(cluster).estimate(spec, 4);
    CAPTURE(schedule);
    CHECK(e.time.bubble / (e.time.total - e.time.update) == Approx(bubble).margin(0.01));
  }
}

TEST_CASE("a quick estimate is within 10 % of the exact one", "[planner]") {
  const ClusterSpec cluster = small_cluster(4);
  Estimator estimator(cluster);
  // Large enough that latencies of single messages do not dominate.
  const std::string gpt = "family: gpt, layers: 8, hidden: 2048, heads: 16, vocab: 8192, max_position: 64";
  const std::string llama =
      "family: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 4, ffn: 5632, vocab: 32000, max_position: 64";
  for (const std::string& model : {gpt, llama})
    for (const std::string parallel :
         {"tensor: 2", "sequence: 2", "data: 4", "data: 4, zero_stage: 1", "tensor: 2, data: 2, zero_stage: 1",
          "tensor: 2, data: 2, megatron_sp: true", "pipeline: {ranks: 2}", "pipeline: {ranks: 4, schedule: zb-h1}",
          "data: 2, pipeline: {ranks: 4, schedule: zb-v}", "tensor: 2, pipeline: {ranks: 4, schedule: interleaved}"})
      for (const int micro_batch : {1, 2}) {
        // Muon's products are a large part of steps as short as these.
        RunSpec spec = spec_of(model, parallel, fmt::format("global_batch: 128, micro_batch: {}", 4 * micro_batch),
                               micro_batch == 2 ? "optimizer: {kind: muon}" : "");
        const int ranks = static_cast<int>(spec.parallel.tensor * spec.parallel.sequence * spec.parallel.data *
                                           spec.parallel.pipeline.ranks);
        const Estimate whole = estimator.estimate(spec, ranks), quick_estimate = estimator.quick_estimate(spec, ranks);
        CAPTURE(model, parallel, micro_batch, quick_estimate.time.compute, whole.time.compute,
                quick_estimate.time.exposed, whole.time.exposed, quick_estimate.time.bubble, whole.time.bubble,
                quick_estimate.time.update, whole.time.update);
        CHECK(quick_estimate.time.total == Approx(whole.time.total).epsilon(0.1));
        CHECK(whole.time.total ==
              Approx(whole.time.compute + whole.time.exposed + whole.time.bubble + whole.time.update));
      }
}

TEST_CASE("an estimator does not reuse costs of another run", "[planner]") {
  const ClusterSpec cluster = small_cluster();
  Estimator one(cluster);
  const RunSpec a = spec_of(kGpt, "pipeline: {ranks: 2}", "global_batch: 8, micro_batch: 2");
  const RunSpec b = spec_of(kLlama, "pipeline: {ranks: 2}", "global_batch: 8, micro_batch: 2");
  RunSpec c = a;
  c.data.seq_len = 32;
  for (const RunSpec& spec : {a, b, c, a})
    CHECK(one.estimate(spec, 2).time.total == Estimator(cluster).estimate(spec, 2).time.total);
}

namespace {

// About 124 million parameters, which pass through the device in 30 pieces.
const std::string kSmall = "family: gpt, layers: 12, hidden: 768, heads: 12, vocab: 50304, max_position: 64";

}  // namespace

TEST_CASE("the copies of offloaded state are hidden as far as the update takes time", "[planner]") {
  ClusterSpec cluster = small_cluster();
  const std::string train = "global_batch: 2, micro_batch: 2";
  for (const std::string compute : {"bf16", "fp32"}) {
    const std::string precision = "precision: {compute: " + compute + "}\n";
    const RunSpec resident = spec_of(kSmall, "", train, precision),
                  offloads = spec_of(kSmall, "", train, precision + "memory: {offload: {optimizer: host}}");
    const auto ops = make_counting_ops();
    const Prediction p = dry_run(offloads, offloads.model, *ops);
    const double bytes = (compute == "bf16" ? 12.0 : 8.0) * static_cast<double>(p.parameters);
    CHECK(static_cast<double>(p.offloaded_bytes) == Approx(bytes).epsilon(1e-3));
    CHECK(p.copied[index_of(CopyLane::to_device)] == p.copied[index_of(CopyLane::to_host)]);
    CHECK(static_cast<double>(p.copied[0]) == Approx(bytes).epsilon(1e-3));
    const Estimate without = Estimator(cluster).estimate(resident, 1);
    CHECK(without.time.copies == 0);
    for (const double rate : {0.5, 50.0, 2000.0, 1e9}) {
      cluster.host_gb_per_s = rate;
      CAPTURE(compute, rate);
      const StepTime t = Estimator(cluster).estimate(offloads, 1).time;
      const double one_way = bytes / (rate * 1e9), piece = one_way / 20;  // the pieces are not of the same size
      CHECK(t.update == Approx(without.time.update).epsilon(1e-2));
      CHECK(t.update + t.copies >= std::max(one_way, t.update));
      CHECK(t.update + t.copies <= std::max(one_way, t.update) + 2 * piece + 0.1 * std::min(one_way, t.update));
      CHECK(t.total == Approx(t.compute + t.update + t.copies));
      const StepTime quick = Estimator(cluster).quick_estimate(offloads, 1).time;
      CHECK(quick.total == Approx(t.total).epsilon(kQuickEstimateError));
    }
  }
}

TEST_CASE("the host updates its part of the state beside the device", "[planner]") {
  ClusterSpec cluster = small_cluster();
  const std::string train = "global_batch: 2, micro_batch: 2";
  const auto spec_at = [&](double share, const std::string& more = "") {
    return spec_of(kSmall, "", train,
                   fmt::format("memory: {{offload: {{optimizer: host, device_share: {}}}}}\n{}", share, more));
  };
  for (const double host : {20.0, 100.0, 1000.0})
    for (const double link : {10.0, 50.0}) {
      cluster.host_update_gb_per_s = host;
      cluster.host_gb_per_s = link;
      double best = 1e9;
      for (const double share : {0.0, 0.25, 0.5, 2.0 / 3, 0.75, 1.0}) {
        CAPTURE(host, link, share);
        const RunSpec spec = spec_at(share);
        const auto ops = make_counting_ops();
        const Prediction p = dry_run(spec, spec.model, *ops);
        const auto n = static_cast<double>(p.parameters);
        const double in = n * (12 * share + 2 * (1 - share)), out = n * (12 * share + 4 * (1 - share));
        CHECK(static_cast<double>(p.copied[index_of(CopyLane::to_device)]) == Approx(in).epsilon(0.1));
        CHECK(static_cast<double>(p.copied[index_of(CopyLane::to_host)]) == Approx(out).epsilon(0.1));
        CHECK(static_cast<double>(p.host_updates) == Approx(30 * n * (1 - share)).epsilon(0.1).margin(1));
        const StepTime t = Estimator(cluster).estimate(spec, 1).time;
        const double model = n * model_seconds(share, update_rates(spec, CostModel(cluster, 1)), update_bytes(spec));
        CHECK(t.update + t.copies >= 0.9 * model);
        CHECK(t.update + t.copies <= 1.4 * model);  // 30 subgroups: beginning, end and the norm count
        CHECK(t.total == Approx(t.compute + t.update + t.copies));
        best = std::min(best, t.total);
        const StepTime quick = Estimator(cluster).quick_estimate(spec, 1).time;
        CHECK(quick.total == Approx(t.total).epsilon(kQuickEstimateError));
      }
      const double chosen = best_device_share(spec_at(1), CostModel(cluster, 1));
      CAPTURE(host, link, chosen);
      CHECK(Estimator(cluster).estimate(spec_at(chosen), 1).time.total <= 1.05 * best);
    }
}

TEST_CASE("weights in host memory move twice a step, and gradients once, beside the passes", "[planner]") {
  ClusterSpec cluster = small_cluster();
  const auto spec_at = [&](int micro_batches, const std::string& weights) {
    return spec_of(kSmall, "", fmt::format("global_batch: {}, micro_batch: 2", 2 * micro_batches),
                   fmt::format("memory: {{offload: {{optimizer: host, {}}}}}", weights));
  };
  const auto ops = make_counting_ops();
  for (const int micro_batches : {1, 4}) {
    const RunSpec stays = spec_at(micro_batches, "device_share: 1"), away = spec_at(micro_batches, "weights: host");
    const Prediction before = dry_run(stays, stays.model, *ops), p = dry_run(away, away.model, *ops);
    // Two stages stay between the forward and the backward pass: the last layer and the LM head. The embedding comes
    // for the first stage and for the last. In the update, gradients pass through the device, and weights leave it.
    ParamTable table;
    declare_parameters(away.model, table);
    const auto of = [&](const std::vector<int>& units) {
      int64_t sum = 0;
      for (const int u : units) sum += table.units()[static_cast<size_t>(u)].elements;
      return sum;
    };
    std::vector<int> all(table.units().size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<int> ends = table.embedding_units();
    for (const int u : table.head_units())
      if (!table.is_tied_unit(u)) ends.push_back(u);
    const int64_t head = of(table.head_units()), kept = head + of({table.layer_unit(away.model.layers - 1)}),
                  used = of(table.embedding_units()) + head + of(all) - of(ends), n = of(all);
    const auto more = [&](CopyLane lane) {
      return static_cast<double>(p.copied[index_of(lane)] - before.copied[index_of(lane)]);
    };
    const auto weights = 2 * static_cast<double>(2 * used - kept), gradients = 4 * static_cast<double>(n);
    CHECK(more(CopyLane::to_device) == Approx(weights + gradients).epsilon(1e-3));
    CHECK(more(CopyLane::to_host) == Approx(gradients + gradients / 2).epsilon(1e-3));
    for (const double rate : {1e9, 50.0, 1.0}) {
      cluster.host_gb_per_s = rate;
      CAPTURE(micro_batches, rate);
      const StepTime with = Estimator(cluster).estimate(away, 1).time,
                     without = Estimator(cluster).estimate(stays, 1).time;
      const double device = with.compute + with.update;
      const auto seconds = [&](CopyLane lane) { return 1e-9 * static_cast<double>(p.copied[index_of(lane)]) / rate; };
      const double up = seconds(CopyLane::to_device), down = seconds(CopyLane::to_host);
      CHECK(device == Approx(without.compute + without.update).epsilon(0.02));
      CHECK(with.total >= 0.99 * std::max({device, up, down}));
      CHECK(with.total <= 1.01 * (device + up + down));
      const double quick = Estimator(cluster).quick_estimate(away, 1).time.total;
      if (rate > 1) CHECK(quick == Approx(with.total).epsilon(kQuickEstimateError));
    }
  }
}

TEST_CASE("a pipeline's update waits for copies too, and ZeRO divides them", "[planner]") {
  const ClusterSpec cluster = small_cluster();
  const auto copies = [&](const std::string& parallel, int ranks) {
    const RunSpec spec =
        spec_of(kSmall, parallel, "global_batch: 8, micro_batch: 1", "memory: {offload: {optimizer: host}}");
    const Estimate exact = Estimator(cluster).estimate(spec, ranks),
                   quick = Estimator(cluster).quick_estimate(spec, ranks);
    CHECK(quick.time.total == Approx(exact.time.total).epsilon(kQuickEstimateError));
    return exact.time.copies;
  };
  const double one = copies("", 1);
  CHECK(copies("data: 2", 2) == Approx(one).epsilon(1e-3));
  CHECK(copies("data: 4, zero_stage: 1", 4) == Approx(one / 4).epsilon(0.2));
  const double stages = copies("pipeline: {ranks: 2}", 2);
  CHECK(stages > 0.4 * one);
  CHECK(stages < 0.9 * one);
}

TEST_CASE("the copies of layer inputs are hidden as far as the layers take time", "[planner]") {
  ClusterSpec cluster = small_cluster();
  const std::string full = "memory: {recompute: full, offload: {activations: host}}";
  for (const std::string parallel : {"", "tensor: 2", "pipeline: {ranks: 2, layers: [6, 6]}"}) {
    const int ranks = parallel.empty() ? 1 : 2;
    const std::string train = "global_batch: 8, micro_batch: 2";
    const RunSpec resident = spec_of(kSmall, parallel, train, "memory: {recompute: full}"),
                  away = spec_of(kSmall, parallel, train, full);
    const StepTime without = Estimator(cluster).estimate(resident, ranks).time;
    CHECK(without.copies == 0);
    double slower = without.total;
    for (const double rate : {1e9, 50.0, 0.1, 0.01}) {
      cluster.host_gb_per_s = rate;
      CAPTURE(parallel, rate);
      const StepTime t = Estimator(cluster).estimate(away, ranks).time,
                     quick = Estimator(cluster).quick_estimate(away, ranks).time;
      if (!parallel.starts_with("pipeline"))  // there, slow copies change which rank has most to do
        CHECK(t.compute == Approx(without.compute).epsilon(1e-6));
      CHECK(t.total >= slower * (1 - 1e-9));
      CHECK(quick.total == Approx(t.total).epsilon(kQuickEstimateError));
      slower = t.total;
    }
    // So slow are the copies that nearly nothing else takes time. Inputs are 2 x 64 x 768 in bf16, and each goes out
    // and back. 4 micro-batches pass through 11 of 12 layers; in two stages of 6 and 5 such layers, the second works
    // through three while the first begins and ends with one.
    const double copies = parallel.starts_with("pipeline") ? 4 * 12 + 2 * 5 : 4 * 2 * 11;
    CHECK(slower == Approx(copies * 2 * 64 * 768 * 2 / 0.01e9).epsilon(0.1));
  }
}

TEST_CASE("gathers by nodes take as long as what reaches the busiest rank from other nodes", "[planner]") {
  ClusterSpec cluster = small_cluster(4);
  cluster.profiles[0].ops = {{"other", "", 0, 0, 0}};
  cluster.profiles[0].links = {{"ranks", "any", 0, 1e9}, {"nodes", "any", 0, 10}};
  const RunSpec spec = spec_of(kGpt, "data: 8, zero_stage: 1", "global_batch: 8, micro_batch: 1",
                               "communication: {by_nodes: true}\nprecision: {compute: bf16}");
  // A rank of each node keeps a quarter of the weights; the shards of some of these all come from the other node.
  const double seconds = 2.0 * static_cast<double>(parameter_count(spec.model)) / 4 / 10e9;
  CHECK(Estimator(cluster).estimate(spec, 8).time.update == Approx(seconds).epsilon(0.02));
  CHECK(Estimator(cluster).quick_estimate(spec, 8).time.update == Approx(seconds).epsilon(0.02));
}

TEST_CASE("a pipeline's update sends differences to weights that nodes keep, and gathers none", "[planner]") {
  ClusterSpec cluster = small_cluster(2);
  const std::string differences =
      "communication: {weight_bits: 4, weight_differences: true, node_weights: true}\n"
      "precision: {compute: bf16}";
  const auto update = [&](const std::string& parallel, int ranks) {
    const RunSpec spec = spec_of(kGpt, parallel, "global_batch: 32, micro_batch: 1", differences);
    return Estimator(cluster).estimate(spec, ranks).time.update;
  };
  // A pipeline rank updates a part of the model. A gather of that would take several times as long as differences.
  CHECK(update("data: 4, zero_stage: 3, pipeline: {ranks: 2}", 8) < update("data: 4, zero_stage: 3", 4));
}

TEST_CASE("a pipeline whose nodes keep weights gathers them faster after the first time", "[planner]") {
  ClusterSpec cluster = small_cluster(2);
  const auto step = [&](const std::string& schedule, const std::string& communication) {
    const RunSpec spec =
        spec_of(kGpt, "data: 4, zero_stage: 3, pipeline: {ranks: 2, " + schedule + "}",
                "global_batch: 64, micro_batch: 1", communication + "precision: {compute: bf16, gradients: bf16}");
    return Estimator(cluster).estimate(spec, 8).time.total;
  };
  const std::string kept = "communication: {node_weights: true}\n";
  // Of four stages a rank holds two gathered at a time; with one, it gathers that only once.
  CHECK(step("schedule: interleaved, chunks: 4", kept) < 0.95 * step("schedule: interleaved, chunks: 4", ""));
  CHECK(step("schedule: 1f1b", kept) == Approx(step("schedule: 1f1b", "")).epsilon(1e-6));
}
