// The work of all ranks of a plan equals that of one rank: splitting a model neither loses nor adds work.
#include <catch2/catch.hpp>

#include "base/philox.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "dryrun/dry_run.h"
#include "sharding/arrange.h"

using namespace fp;

namespace {

struct Work {
  double products = 0, attention = 0;
};

// Returns the work of a step over all ranks; a dry run of a rank without a pipeline counts one of its micro-batches.
Work work_of(const RunSpec& given, int ranks) {
  RunSpec spec = given;
  const Mesh mesh = arrange(spec, ranks);
  const auto ops = make_counting_ops();
  Work sum;
  const double each =
      mesh.pp() > 1 ? 1 : static_cast<double>(spec.train.global_batch / spec.train.micro_batch / spec.parallel.data);
  for (int rank = 0; rank < ranks; ++rank) {
    const Prediction p = dry_run(spec, spec.model, *ops, mesh, rank);
    sum.products += each * p.passes.gemm_flops();
    for (const auto& [op, count] : p.passes.by_op)
      if (op == "attention") sum.attention += each * count.flops;
  }
  return sum;
}

}  // namespace

TEST_CASE("the work of a step does not depend on the plan and equals the formula", "[planner]") {
  const std::string families[] = {
      "family: gpt, layers: 4, hidden: 64, heads: 8, vocab: 256, max_position: 64",
      "family: llama, layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 192, vocab: 256, max_position: 64",
      "family: phi3, layers: 4, hidden: 64, heads: 4, kv_heads: 4, ffn: 128, vocab: 256, max_position: 64"};
  constexpr int64_t kLength = 64, kSamples = 16;
  for (const std::string& family : families)
    for (const std::string parallel :
         {"data: 1", "data: 4, zero_stage: 3", "tensor: 2", "tensor: 4, megatron_sp: true", "sequence: 4",
          "tensor: 2, sequence: 2, data: 2", "data: 2, pipeline: {ranks: 2}",
          "tensor: 2, pipeline: {ranks: 2, schedule: zb-v}", "pipeline: {ranks: 4, schedule: chimera, w_pass: true}"}) {
      RunSpec spec = parse_run_spec(
          fmt::format("model: {{{}}}\ndata: {{seq_len: {}}}\ntrain: {{global_batch: {}, micro_batch: 2}}\n"
                      "parallel: {{{}}}\n",
                      family, kLength, kSamples, parallel),
          "test");
      const ParallelSection& p = spec.parallel;
      const Work all = work_of(spec, static_cast<int>(p.tensor * p.sequence * p.data * p.pipeline.ranks));
      CAPTURE(family, parallel);
      // models.md 4b: 6 per weight of every product and token; attention's passes are 4 H d per visible pair, once
      // forward.
      constexpr double kTokens = kLength * kSamples;
      const ModelSection& m = spec.model;
      const double pairs = kLength * (kLength + 1) / 2.0;
      const double attention = 4.0 * static_cast<double>(m.heads * m.head_dim * m.layers) * pairs * kSamples;
      const double causal = 12.0 * static_cast<double>(m.heads * m.head_dim * m.layers) * kLength / 2.0;
      const double products = (flops_per_token(m, kLength, AttentionCount::causal) - causal) * kTokens;
      CHECK(all.products == Approx(products).epsilon(1e-12));
      CHECK(all.attention == Approx(attention).epsilon(1e-12));
    }
}
