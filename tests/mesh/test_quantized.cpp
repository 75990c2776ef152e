// Quantized communication of shards (ZeRO++) on meshes: training, and the bytes that leave a node.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

MeshPlan quantized(MeshPlan p, int64_t weight_bits, int64_t gradient_bits) {
  p.communication = {.weight_bits = weight_bits, .gradient_bits = gradient_bits, .block = 64};
  p.ranks_per_node = 2;
  return p;
}

// Meshes of all axes and ZeRO stages, in both types of gradients; with this stage on tensor ranks.
std::vector<MeshPlan> exact_meshes(int zero_of_tensor) {
  std::vector<MeshPlan> list{MeshPlan{.dp = 4, .zero = 3},
                             MeshPlan{.dp = 4, .zero = 2, .compute = DType::bf16, .gradients = DType::bf16},
                             MeshPlan{.tp = 2, .dp = 2, .zero = zero_of_tensor}, MeshPlan{.sp = 2, .dp = 2, .zero = 1},
                             piped(PipelineSchedule::one_f_one_b, MeshPlan{.dp = 2, .zero = 2})};
  for (MeshPlan& p : list) p.micro_batches = p.dp == 4 ? 1 : 2;
  return list;
}

// Bytes that leave the nodes in a step for one kind of data, the sum over the ranks.
int64_t between_nodes(const MeshResult& r, const std::string& group, CommKind kind) {
  int64_t sum = 0;
  for (const TrafficTable& t : r.traffic)
    if (const auto sent = t.find({group, kind}); sent != t.end()) sum += sent->second.between_nodes;
  return sum;
}

}  // namespace

TEST_CASE("training with quantized communication stays close to training without", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const MeshPlan& p : {MeshPlan{.dp = 4, .zero = 3}, MeshPlan{.dp = 4, .zero = 2}, MeshPlan{.dp = 4, .zero = 1},
                            MeshPlan{.tp = 2, .dp = 2, .zero = 3}, MeshPlan{.sp = 2, .dp = 2, .zero = 3},
                            piped(PipelineSchedule::one_f_one_b, MeshPlan{.dp = 2, .zero = 2})}) {
    MeshPlan plain = p;
    plain.micro_batches = plain.samples / plain.dp;
    plain.micro_batches = std::min<int64_t>(2, plain.micro_batches);
    if (plain.dp == 4) plain.micro_batches = 1;
    CAPTURE(plain.text());
    const MeshResult exact = run_mesh(m, plain);
    const MeshPlan compressed = quantized(plain, plain.zero == 3 ? 8 : 0, 8);
    const MeshResult close = run_mesh(m, compressed);
    CHECK(close.losses != exact.losses);
    for (size_t i = 0; i < exact.losses.size(); ++i) CHECK(close.losses[i] == Approx(exact.losses[i]).epsilon(0.05));
    CHECK(run_mesh(m, compressed) == close);
    if (plain.zero != 2) continue;
    MeshPlan rotated = compressed;
    rotated.communication.rotate_gradients = true;
    const MeshResult also_close = run_mesh(m, rotated);
    CHECK(also_close.losses != close.losses);
    for (size_t i = 0; i < exact.losses.size(); ++i)
      CHECK(also_close.losses[i] == Approx(exact.losses[i]).epsilon(0.05));
  }
}

TEST_CASE("quantization keeps what several tensor-parallel ranks hold equal", "[mesh]") {
  // run_mesh() compares replicas at the end: of norms and biases, and of the kv head that both ranks have. With three
  // ranks these are at different places of a layer.
  ModelSection one_kv_head = shared_model("llama");
  one_kv_head.kv_heads = 1;
  for (const auto& [m, tp] :
       {std::pair(shared_model("gpt"), 2), std::pair(one_kv_head, 2), std::pair(shared_model("gpt"), 3)})
    for (const int zero : {1, 2, 3}) {
      MeshPlan p = quantized(MeshPlan{.tp = tp, .dp = 2, .zero = zero, .compute = DType::bf16}, zero == 3 ? 8 : 0, 4);
      p.communication.block = 256;  // more than a norm has
      CAPTURE(p.text(), m.family, m.kv_heads);
      CHECK_NOTHROW(run_mesh(m, p));
      p.communication.max_gradient_error = 0.2;
      CHECK_NOTHROW(run_mesh(m, p));
      if (zero == 3) continue;
      p.communication.weight_bits = 4;
      p.communication.weight_differences = true;
      CHECK_NOTHROW(run_mesh(m, p));
    }
}

TEST_CASE("max_gradient_error chooses equal bits on tensor-parallel ranks with parts of different sizes", "[mesh]") {
  // Of three heads one rank has two. The outlier's matrix is more than a quarter of the layer on one of them only.
  ModelSection m = tiny_model("llama");
  m.layers = 1;
  m.hidden = 48;
  m.heads = m.kv_heads = 3;
  m.ffn = 192;
  MeshPlan p = quantized(MeshPlan{.tp = 2, .dp = 2, .zero = 1}, 0, 4);
  p.steps = 6;
  p.optimizer.grad_clip = 0;
  p.communication.max_gradient_error = 0.9;
  int64_t widened = -1;
  p.before_step = [&](Executor& e, int rank, int) {
    e.set_outlier({"model.layers.0.mlp.gate_proj.weight", 5, 1e4});
    if (rank == 0) widened = e.gradient_guard()->widened();
  };
  CHECK_NOTHROW(run_mesh(m, p));  // compares replicas at the end
  CHECK(widened == 1);
}

TEST_CASE("a limit of the error holds for the bits with which a single node sends", "[mesh]") {
  const ModelSection m = shared_model("llama");
  MeshPlan p = quantized(MeshPlan{.dp = 2, .zero = 1}, 0, 8);
  p.steps = 4;
  p.communication.max_gradient_error = 0.15;  // between the usual errors of 8 and of 4 bits
  const auto widened_with = [&](int64_t in_node) {
    p.communication.node_gradient_bits = in_node;
    int64_t widened = 0;
    p.before_step = [&](Executor& e, int rank, int) {
      if (rank == 0) widened = e.gradient_guard()->widened();
    };
    run_mesh(m, p);
    return widened;
  };
  CHECK(widened_with(8) == widened_with(0));
  CHECK(widened_with(4) > widened_with(0));
}

TEST_CASE("gradients are sent unquantized if every format exceeds max_gradient_error", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const int zero : {1, 2, 3}) {
    MeshPlan p{.dp = 4, .zero = zero};
    p.micro_batches = 1;
    p.ranks_per_node = 2;
    CAPTURE(p.text());
    const MeshResult exact = run_mesh(m, p);
    MeshPlan limited = quantized(p, 0, 4);
    limited.communication.max_gradient_error = 1e-6;
    CHECK(run_mesh(m, limited) == exact);
  }
}

TEST_CASE("gradients are quantized from the second step on if all are within max_gradient_error", "[mesh]") {
  const ModelSection m = shared_model("llama");
  MeshPlan p = quantized(MeshPlan{.tp = 2, .dp = 2, .zero = 1}, 0, 4);
  p.communication.max_gradient_error = 1;
  p.micro_batches = 1;
  std::vector<int64_t> widened;
  p.before_step = [&](Executor& e, int rank, int) {
    if (rank == 0) widened.push_back(e.gradient_guard()->widened());
  };
  const MeshResult limited = run_mesh(m, p);
  REQUIRE(widened.size() == static_cast<size_t>(p.steps));
  CHECK(widened[0] > 0);
  CHECK(std::count(widened.begin() + 1, widened.end(), 0) == p.steps - 1);
  // Those bits give the same as if the steps had no limit, after one step that is exact.
  MeshPlan first = p;
  first.steps = 1;
  first.communication = {};
  first.before_step = {};
  CHECK(run_mesh(m, first).losses[0] == limited.losses[0]);
  CHECK(run_mesh(m, first).norms[0] == limited.norms[0]);
}

TEST_CASE(
    "training with max_gradient_error has a loss close to plain training, the predicted memory, and reproducible bits",
    "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const MeshPlan& exact : exact_meshes(2)) {
    CAPTURE(exact.text());
    MeshPlan p = quantized(exact, 0, 4);
    p.communication.max_gradient_error = 0.45;
    std::vector<int64_t> widened;
    p.before_step = [&](Executor& e, int rank, int) {
      if (rank == 0) widened.push_back(e.gradient_guard()->widened());
    };
    const MeshResult limited = run_mesh(m, p), without = run_mesh(m, exact);
    // Some parameters have fewer bits, others not.
    CHECK(*std::min_element(widened.begin(), widened.end()) < widened[0]);
    CHECK(std::count(widened.begin(), widened.end(), 0) < p.steps);
    p.before_step = {};
    CHECK(run_mesh(m, hampered(p)) == limited);
    CHECK(count_mesh(m, p).peaks == limited.peaks);
    for (size_t i = 0; i < limited.losses.size(); ++i)
      CHECK(limited.losses[i] == Approx(without.losses[i]).epsilon(0.05));
  }
}

TEST_CASE("max_gradient_error leaves only the parameter with an outlier channel unquantized", "[mesh]") {
  const ModelSection m = shared_model("gpt");
  MeshPlan p = quantized(MeshPlan{.dp = 4, .zero = 3}, 0, 4);
  p.micro_batches = 1;
  p.steps = 12;
  p.optimizer.grad_clip = 0;  // which would make all gradients as small as AdamW's eps
  int64_t widened = -1;
  const auto with_outlier = [&](MeshPlan plan) {
    plan.before_step = [&](Executor& e, int rank, int) {
      e.set_outlier({"h.1.attn.c_attn.weight", 7, 1e4});
      if (rank == 0 && e.gradient_guard() != nullptr) widened = e.gradient_guard()->widened();
    };
    return run_mesh(m, plan);
  };
  MeshPlan plain = p, limited = p;
  plain.communication = {};
  limited.communication.max_gradient_error = 0.9;
  const MeshResult exact = run_mesh(m, plain), same = with_outlier(plain), lost = with_outlier(p),
                   kept = with_outlier(limited);
  CHECK(widened == 1);
  // AdamW divides by the size of the gradients, so that only quantization notices.
  CHECK(worst_difference(same, exact) < 0.02);
  CHECK(worst_difference(kept, exact) < 0.5 * worst_difference(lost, exact));
  const auto refused = [&](const std::string& name, int64_t channel) {
    MeshPlan one;
    one.before_step = [&](Executor& e, int, int) { e.set_outlier({name, channel, 2}); };
    run_mesh(m, one);
  };
  CHECK_THROWS_WITH(refused("h.1.attn.c_attn.bias", 0), Catch::Contains("no channel 0 of h.1.attn.c_attn.bias"));
  CHECK_THROWS_WITH(refused("h.1.attn.c_attn.weight", 32), Catch::Contains("no channel 32 of"));
  CHECK_THROWS_WITH(refused("nothing", 0), Catch::Contains("the model has no parameter nothing"));
}

TEST_CASE("training that keeps what sums lose stays close, takes the predicted memory, and repeats", "[mesh]") {
  ModelSection m = shared_model("llama");
  m.tied_embeddings = true;
  for (const MeshPlan& exact : exact_meshes(1)) {
    CAPTURE(exact.text());
    MeshPlan p = quantized(exact, 0, 4);
    p.communication.error_feedback = 0.7;
    p.communication.error_feedback_steps = 3;
    for (const double limit : {0.0, 0.45}) {
      p.communication.max_gradient_error = limit;
      const MeshResult kept = run_mesh(m, p), without = run_mesh(m, exact);
      CHECK(run_mesh(m, hampered(p)) == kept);
      CHECK(count_mesh(m, p).peaks == kept.peaks);
      for (size_t i = 0; i < kept.losses.size(); ++i) CHECK(kept.losses[i] == Approx(without.losses[i]).epsilon(0.05));
      MeshPlan forgets = p;
      forgets.communication.error_feedback = 0;
      CHECK(run_mesh(m, forgets).losses != kept.losses);
    }
  }
}

TEST_CASE("a node sends each value once to every other node, in the size of its format", "[mesh]") {
  const ModelSection m = shared_model("llama");
  MeshPlan p{.dp = 4, .zero = 3, .compute = DType::bf16, .gradients = DType::bf16};
  p.micro_batches = 1;
  p.steps = 2;
  p.ranks_per_node = 2;
  constexpr int64_t kNodes = 2;
  ParamTable table(1, 0, p.dp, 0);
  declare_parameters(m, table);
  // Sums over all ranks, with `of` as the bytes of a shard: those of one gather or sum that goes through nodes, and of
  // a ring, in which the last rank of each node sends to the next node what it has, dp - 1 shards.
  const auto once = [&](const auto& of) {
    int64_t bytes = 0;
    for (const ParamUnit& u : table.units()) bytes += p.dp * (kNodes - 1) * of(u.elements / p.dp);
    return bytes;
  };
  const auto packed = [](int bits) { return [bits](int64_t n) { return packed_bytes(BlockFormat{bits, 64}, n); }; };
  const auto exact = [](int64_t n) { return 2 * n; };
  const auto run = [&](int zero, const CommunicationSection& c) {
    MeshPlan q = p;
    q.zero = zero;
    q.communication = c;
    const MeshResult result = run_mesh(m, q);
    for (const auto& [group, kind] :
         {std::pair("data_in_node", CommKind::all_gather), std::pair("data_in_node", CommKind::reduce_scatter),
          std::pair("data_in_node", CommKind::all_to_all)})
      CHECK(between_nodes(result, group, kind) == 0);
    return result;
  };
  const auto total = [](const MeshResult& r) {
    int64_t sum = 0;
    for (const TrafficTable& t : r.traffic)
      for (const auto& [key, sent] : t)
        if (key.second != CommKind::host) sum += sent.between_nodes;
    return sum;
  };

  // ZeRO 3 gathers some units for both passes, others once.
  const MeshResult ring = run(3, {}), nodes = run(3, {.by_nodes = true});
  const int64_t ring_once = once(exact) * kNodes * (p.dp - 1) / (p.dp * (kNodes - 1));
  CHECK(between_nodes(ring, "data", CommKind::reduce_scatter) == ring_once);
  CHECK(total(ring) > 2 * ring_once);
  CHECK(total(ring) <= 3 * ring_once);
  CHECK(total(nodes) * kNodes * (p.dp - 1) == total(ring) * p.dp * (kNodes - 1));
  for (size_t i = 0; i < ring.losses.size(); ++i) CHECK(nodes.losses[i] == Approx(ring.losses[i]).epsilon(0.01));

  CHECK(total(run(1, {.by_nodes = true})) == 2 * once(exact));
  CHECK(total(run(3, {.by_nodes = true, .weight_bits = 8, .node_weights = true, .gradient_bits = 4, .block = 64})) ==
        once(packed(8)) + once(packed(4)));
  for (const int zero : {1, 3})  // ZeRO 3 sends differences to what each node keeps
    CHECK(total(run(zero, {.by_nodes = zero == 1,
                           .weight_bits = 4,
                           .weight_differences = true,
                           .node_weights = zero == 3,
                           .gradient_bits = 4,
                           .node_gradient_bits = 8,
                           .block = 64})) == 2 * once(packed(4)));
}

TEST_CASE("weights that nodes keep do not change a bit, and leave the node once a step", "[mesh]") {
  const ModelSection m = shared_model("gpt");
  for (const int64_t bits : {0, 8})
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      MeshPlan p{.dp = 4, .zero = 3, .recompute = recompute};
      p.samples = 8;
      p.communication = {.weight_bits = bits, .block = 64};
      p.ranks_per_node = 2;
      CAPTURE(bits, p.text());
      const MeshResult from_all = run_mesh(m, p);
      p.communication.node_weights = true;
      const MeshResult from_node = run_mesh(m, p);
      CHECK(from_node == from_all);
      // Two micro-batches, each forward and backward; the gathers of the first pass are from all ranks.
      const auto gathered = [](const MeshResult& r) {
        return between_nodes(r, "data", CommKind::all_gather) + between_nodes(r, "data", CommKind::all_to_all);
      };
      CHECK(gathered(from_node) > 0);
      CHECK(2 * gathered(from_node) <= gathered(from_all));
      CHECK(between_nodes(from_node, "data_in_node", CommKind::all_gather) == 0);
    }
}

TEST_CASE("weights that nodes keep do not change a bit beside tensor, sequence and pipeline ranks", "[mesh]") {
  const ModelSection m = shared_model("llama");
  const auto check = [&](MeshPlan p, int ranks_per_node) {
    p.zero = 3;
    p.samples = 8;
    p.communication = {.weight_bits = 8, .block = 64};
    p.ranks_per_node = ranks_per_node;
    CAPTURE(p.text());
    const MeshResult from_all = run_mesh(m, p);
    p.communication.node_weights = true;
    const MeshResult from_node = run_mesh(m, p);
    CHECK(from_node == from_all);
    const int64_t with = between_nodes(from_node, "data", CommKind::all_gather),
                  without = between_nodes(from_all, "data", CommKind::all_gather);
    CHECK((p.pipeline.ranks > 1 ? with <= without : with < without));  // these pipelines gather a stage once a step
  };
  check(MeshPlan{.tp = 2, .dp = 4}, 4);
  check(MeshPlan{.sp = 2, .dp = 2}, 2);
  check(piped(PipelineSchedule::one_f_one_b, MeshPlan{.dp = 4}), 2);
  check(piped(PipelineSchedule::zeropp, MeshPlan{.dp = 4}), 2);
}

TEST_CASE("training with weight differences stays close to training without, on every arrangement of nodes", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const int64_t bits : {4, 8}) {
    std::optional<std::vector<double>> expected;
    for (const int zero : {1, 2, 3})
      for (const int each : {1, 2, 4}) {
        MeshPlan p{.dp = 4, .zero = zero, .compute = DType::bf16};
        p.micro_batches = 1;
        p.ranks_per_node = each;
        p.executor.check_sums = true;
        const MeshResult exact = run_mesh(m, p);
        p.communication = {.weight_bits = bits, .weight_differences = true, .node_weights = zero == 3, .block = 64};
        CAPTURE(p.text(), bits, each);
        const MeshResult close = run_mesh(m, p);
        if (zero == 3 && each == 2) CHECK(run_mesh(m, p) == close);
        for (size_t i = 0; i < exact.losses.size(); ++i)
          CHECK(close.losses[i] == Approx(exact.losses[i]).epsilon(0.02));
        // Under ZeRO 3 only a node that keeps weights holds some to which there are differences.
        if (zero == 3 && each != 2) {
          CHECK(close.losses == exact.losses);
          continue;
        }
        CHECK(close.losses != exact.losses);
        if (!expected) expected = close.losses;
        CHECK(close.losses == *expected);
      }
  }
}

TEST_CASE("updates of offloaded state and of matrices send the same weight differences", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::muon}) {
    MeshPlan p{.dp = 4, .zero = 1, .compute = DType::bf16};
    p.micro_batches = 1;
    p.ranks_per_node = 2;
    p.optimizer.kind = kind;
    p.communication = {.weight_bits = 4, .weight_differences = true, .block = 64};
    const MeshResult on_device = run_mesh(m, p);
    p.offload = true;
    for (const double share : kind == OptimizerKind::muon ? std::vector{1.0} : std::vector{1.0, 0.5, 0.0}) {
      p.device_share = share;
      CAPTURE(p.text(), share);
      CHECK(run_mesh(m, p).losses == on_device.losses);
    }
  }
}

// Tensor and sequence-parallel ranks quantize other addends and blocks, so that there only the error stays alike.
TEST_CASE("quantized communication sends the same beside pipeline ranks", "[mesh]") {
  const ModelSection m = shared_model("llama");
  const auto losses = [&](MeshPlan p, int zero) {
    p.zero = zero;
    return run_mesh(m, quantized(p, zero == 3 ? 8 : 0, 8)).losses;
  };
  for (const int zero : {1, 2, 3}) {
    CAPTURE(zero);
    const std::vector<double> one_stage = losses(MeshPlan{.dp = 2}, zero),
                              two_stages = losses(piped(PipelineSchedule::one_f_one_b, MeshPlan{.dp = 2}), zero);
    for (size_t i = 0; i < one_stage.size(); ++i) CHECK(two_stages[i] == Approx(one_stage[i]).epsilon(1e-5));
  }
}
