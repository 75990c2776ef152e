// Properties that the memory of every plan must have, for all models, schedules and precisions.
#include <catch2/catch.hpp>

#include "comm/counting.h"
#include "dryrun/dry_run.h"
#include "dryrun/setup.h"
#include "planner/random_run.h"
#include "planner/roles.h"

using namespace fp;
using namespace fp::test;

namespace {

// Peak bytes in use on the rank that needs most, without the gaps of the arena, which are irregular. Includes what is
// offloaded to host memory.
int64_t needed(const RunSpec& spec, const Mesh& mesh) {
  const auto ops = make_counting_ops();
  const PipelinePlan plan = plan_pipeline(spec);
  const Roles roles(spec, mesh);
  int64_t most = 0;
  for (int role = 0; role < roles.count(); ++role) {
    const Prediction p = dry_run(spec, plan, *ops, mesh, roles.rank(role));
    most = std::max(most, static_cast<int64_t>(p.used_bytes + p.offloaded_bytes));
  }
  return most;
}

// Bytes of weights, gradients and moments between steps, on the first rank.
int64_t kept(const RunSpec& spec, const Mesh& mesh) {
  const auto ops = make_counting_ops();
  const auto world = make_counting_world(0, mesh.size());
  Arena arena, host_arena(Residence::host);
  const Model model(spec.model, model_options(spec, plan_pipeline(spec), 0), *ops, arena, make_groups(*world, mesh),
                    &host_arena);
  return static_cast<int64_t>(arena.in_use() + host_arena.in_use());
}

// Elements of a tensor rank's units, which are padded so that they divide evenly over the data and sequence ranks.
int64_t padded_elements(const RunSpec& spec, const Mesh& mesh) {
  ParamTable table(mesh.tp(), 0, mesh.data(0).size(), 0);
  declare_parameters(spec.model, table);
  int64_t sum = 0;
  for (const ParamUnit& u : table.units()) sum += u.elements;
  return sum;
}

Mesh with_data_ranks(const Mesh& m, int dp) {
  return Mesh(m.pp(), dp, m.sp(), m.tp(), m.pp() * dp * m.sp() * m.tp(), m.two_way());
}

void set_data_ranks(RandomRun& r, int dp) {
  r.spec.train.global_batch = r.spec.train.global_batch / r.spec.parallel.data * dp;
  r.spec.parallel.data = dp;
  r.mesh = with_data_ranks(r.mesh, dp);
}

}  // namespace

TEST_CASE("larger micro-batches never need less memory", "[planner][slow]") {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    RandomRun r = random_run(random, {1, 1, 2, 4});
    r.spec.memory.mlp_tile_tokens = 0;  // more tokens may be cut evenly into smaller tiles
    INFO(r.text());
    int64_t before = 0;
    const int64_t each = r.spec.train.global_batch / r.spec.train.micro_batch;
    for (const int64_t b : {1, 2, 4, 8}) {
      r.spec.train.micro_batch = b;
      r.spec.train.global_batch = each * b;
      const int64_t now = needed(r.spec, r.mesh);
      CAPTURE(b);
      CHECK(now >= before);
      before = now;
    }
  }
}

TEST_CASE("a higher ZeRO stage never keeps more", "[planner][slow]") {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    RandomRun r = random_run(random, {1, 1, 2, 4});
    INFO(r.text());
    int64_t before = INT64_MAX;
    for (const int zero : {0, 1, 2, 3}) {
      r.spec.parallel.zero_stage = zero;
      const int64_t now = kept(r.spec, r.mesh);
      CAPTURE(zero);
      CHECK(now <= before);
      before = now;
    }
  }
}

// Under ZeRO 2 and 3 one or two units (in a pipeline, stages) are whole while they are used, so a rank must have more
// than these to need less memory.
TEST_CASE("a higher ZeRO stage never needs more memory where ranks have many layers", "[planner][slow]") {
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    RandomRun r = random_run(random, {1, 1, 2, 4});
    r.spec.model.layers = 24;
    r.spec.model.vocab = 611;
    set_data_ranks(r, 4);
    INFO(r.text());
    int64_t before = INT64_MAX;
    for (const int zero : {0, 1, 2, 3}) {
      if (zero > 1 && r.mesh.pp() > 1) break;
      r.spec.parallel.zero_stage = zero;
      const int64_t now = needed(r.spec, r.mesh);
      CAPTURE(zero);
      CHECK(now <= before);
      before = now;
    }
  }
}

// With one data rank, no weights are gathered and no gradients wait to be divided. In a pipeline, two ranks may need
// more memory for that than they save.
TEST_CASE("more data ranks never need more memory each", "[planner][slow]") {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    RandomRun r = random_run(random, {1, 1, 2, 4});
    r.spec.parallel.zero_stage = std::max<int64_t>(r.spec.parallel.zero_stage, 1);
    r.spec.optimizer.kind = OptimizerKind::adamw;  // whose states outweigh the units that ZeRO 2 and 3 gather
    int64_t before = INT64_MAX / 2, elements = 0;
    for (const int dp : {1, 2, 4, 8}) {
      if (dp == 1 && r.mesh.pp() > 1 && r.spec.parallel.zero_stage > 1) continue;
      set_data_ranks(r, dp);
      INFO(r.text());
      // Weights and gradients are whole on each rank under ZeRO 1, with the padding for its shards.
      const int64_t now = needed(r.spec, r.mesh), padded = padded_elements(r.spec, r.mesh);
      CHECK(now <= before + (padded - elements) * 8);
      before = now;
      elements = padded;
    }
  }
}
