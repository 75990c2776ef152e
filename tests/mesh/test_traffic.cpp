// The bytes sent equal the closed formulas exactly.
//
// b samples of S tokens per micro-batch, m micro-batches, h hidden, L layers, e bytes per activation; t, P, N ranks of
// the tensor, sequence and data groups; M = b S / P rows per rank. All-gather and reduce-scatter of n elements send
// n (k-1)/k over k ranks, all-reduce twice that, all-to-all n (k-1)/k of a rank's n elements.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int64_t kBytes = 4;  // fp32

int64_t sent(const MeshResult& r, const std::string& group, CommKind kind, size_t rank = 0) {
  const auto it = r.traffic[rank].find({group, kind});
  return it == r.traffic[rank].end() ? 0 : it->second.bytes;
}

// The elements of the flat buffers of each unit of a rank, padding included, which ZeRO and the reductions send.
struct Units {
  int64_t all = 0, layers = 0, ends = 0, embedding = 0;
};
Units units_of(const ModelSection& m, const MeshPlan& p) {
  ParamTable table(p.tp, 0, p.dp * p.sp, 0);
  declare_parameters(m, table);
  Units u;
  for (const ParamUnit& unit : table.units()) {
    u.all += unit.elements;
    (table[unit.first].layer >= 0 ? u.layers : u.ends) += unit.elements;
  }
  u.embedding = table.units().front().elements;
  return u;
}

MeshPlan one_step(MeshPlan p) {
  p.steps = 1;
  return p;
}

}  // namespace

TEST_CASE("tensor parallelism sends 8 b s h (t-1)/t elements per layer and micro-batch", "[mesh]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const int tp = GENERATE(2, 4);
  const bool megatron = GENERATE(false, true);
  const Recompute recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
  const ModelSection m = shared_model(family);
  const MeshPlan p = one_step({tp, 1, 1, 0, megatron, recompute});
  CAPTURE(family, p.text());
  const MeshResult r = run_mesh(m, p);
  const int64_t rows = p.samples / p.micro_batches * p.length, h = m.hidden;
  const int64_t once = p.micro_batches * rows * h * (tp - 1) / tp * kBytes;  // one gather or scatter of [rows, h]
  // Forward and backward of a layer: four sums. The embedding sums once, the LM head's backward once.
  const int64_t again_sums = recompute == Recompute::full ? 1 : 0;     // the attention's output
  const int64_t again_gathers = recompute == Recompute::none ? 0 : 2;  // the normed inputs
  const int64_t stats = p.micro_batches * rows * 3 * (tp - 1) * 4;     // of the softmax: f32 [rows,3]
  if (!megatron) {
    CHECK(sent(r, "tensor", CommKind::all_reduce) == 2 * once * ((4 + again_sums) * m.layers + 2));
    CHECK(sent(r, "tensor", CommKind::all_gather) == stats);
    CHECK(sent(r, "tensor", CommKind::reduce_scatter) == 0);
  } else {
    // The same sums as reduce-scatters, each with a gather; the LM head gathers its input, the embedding its gradient.
    CHECK(sent(r, "tensor", CommKind::reduce_scatter) == once * ((4 + again_sums) * m.layers + 2));
    CHECK(sent(r, "tensor", CommKind::all_gather) == once * ((4 + again_gathers) * m.layers + 2) + stats);
    // Gradients of the norms, once per step.
    const int64_t vectors = family == "gpt" ? 2 : 1;
    CHECK(sent(r, "tensor", CommKind::all_reduce) == 2 * (2 * m.layers + 1) * vectors * h * (tp - 1) / tp * 4);
  }
  // Gradients of the projections of kv heads that several ranks hold, over these ranks.
  const int64_t sharers = m.kv_heads < tp ? tp / m.kv_heads : 1;
  const int64_t kv = 2 * m.head_dim * h * m.layers;
  CHECK(sent(r, "kv_copies", CommKind::all_reduce) == 2 * kv * (sharers - 1) / sharers * 4);
}

TEST_CASE("Ulysses sends 2 (h + K d) S/P (P-1)/P elements per layer and pass", "[mesh]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const int sp = GENERATE(2, 4), tp = GENERATE(1, 2);
  const Recompute recompute = GENERATE(Recompute::none, Recompute::full);
  const ModelSection m = shared_model(family);
  const MeshPlan p = one_step({tp, sp, 1, 0, false, recompute});
  CAPTURE(family, p.text());
  const MeshResult r = run_mesh(m, p);
  const int64_t rows = p.samples / p.micro_batches * p.length / sp, d = m.head_dim;
  const int64_t heads = m.heads / tp, kv = std::max<int64_t>(1, m.kv_heads / tp);
  // Fewer kv heads than ranks: each is sent to all ranks that hold a copy, so there are as many pieces as ranks.
  const int64_t kv_sent = std::max<int64_t>(kv, sp);
  const int64_t forward = rows * (2 * heads * d + 2 * kv_sent * d) * (sp - 1) / sp;
  const int64_t passes = recompute == Recompute::full ? 3 : 2;
  CHECK(sent(r, "sequence", CommKind::all_to_all) == passes * forward * m.layers * p.micro_batches * kBytes);
}

TEST_CASE("ZeRO sends 2, 2, 2 and 3 times the parameters", "[mesh]") {
  const std::string family = GENERATE("gpt", "llama");
  const int zero = GENERATE(0, 1, 2, 3), dp = GENERATE(1, 2), sp = GENERATE(2, 4);
  const auto [compute, gradients] = GENERATE(std::pair(DType::f32, DType::f32), std::pair(DType::bf16, DType::f32),
                                             std::pair(DType::bf16, DType::bf16));
  const ModelSection m = shared_model(family);
  MeshPlan p = one_step({1, sp, dp, zero});
  p.compute = compute;
  p.gradients = gradients;
  CAPTURE(family, p.text(), name_of(gradients));
  const MeshResult r = run_mesh(m, p);
  const Units u = units_of(m, p);
  const int64_t n = dp * sp, g = static_cast<int64_t>(size_of(gradients)), w = static_cast<int64_t>(size_of(compute));
  const auto part = [&](int64_t elements) { return elements * (n - 1) / n; };
  const int64_t micro = p.micro_batches, embedding_again = m.tied_embeddings ? u.embedding : 0;
  // ZeRO 0 all-reduces once per step; ZeRO 1 reduce-scatters and gathers the new weights. Sharded gradients are reduced
  // every micro-batch. ZeRO 3 gathers layers forward and backward, but embedding and LM head once (the LM head runs
  // both passes at once, the embedding needs no weights backward), and a tied embedding once more for the LM head.
  CHECK(sent(r, "data", CommKind::all_reduce) == (zero == 0 ? 2 * part(u.all) * g : 0));
  CHECK(sent(r, "data", CommKind::reduce_scatter) == (zero == 0 ? 0 : part(u.all) * g * (zero >= 2 ? micro : 1)));
  const int64_t gathered = zero == 3 ? micro * part(2 * u.layers + u.ends + embedding_again) : part(u.all);
  CHECK(sent(r, "data", CommKind::all_gather) == (zero == 0 ? 0 : gathered * w));
}

TEST_CASE("the counting world predicts the traffic of every rank of a mesh", "[mesh]") {
  const ModelSection m = shared_model("llama");
  const MeshPlan p = one_step({2, 2, 2, 2, true, Recompute::selective});
  const MeshResult real = run_mesh(m, p), counted = count_mesh(m, p);
  for (size_t r = 0; r < real.traffic.size(); ++r) CHECK(real.traffic[r] == counted.traffic[r]);
  CHECK(real.peaks == counted.peaks);
}
