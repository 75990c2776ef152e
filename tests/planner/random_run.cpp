#include "planner/random_run.h"

#include "base/error.h"
#include "config/load.h"
#include "config/validate.h"
#include "dryrun/setup.h"
#include "sharding/arrange.h"
#include "sharding/pipeline_plan.h"
#include "support/tiny_models.h"

namespace fp::test {
namespace {

class Draw {
 public:
  explicit Draw(std::mt19937& random) : random_(random) {}
  template <class T>
  T of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

 private:
  std::mt19937& random_;
};

ModelSection random_model(Draw& draw) {
  ModelSection m = tiny_model(draw.of(tiny_names()));
  m.head_dim = 16;
  m.heads = draw.of<int64_t>({4, 6, 8, 10});
  m.kv_heads = m.family == Family::gpt ? m.heads : draw.of<int64_t>({2, m.heads});
  m.hidden = m.heads * m.head_dim;
  m.ffn = draw.of<int64_t>({2, 3}) * m.hidden + draw.of<int64_t>({0, 8, 24});
  m.vocab = draw.of<int64_t>({611, 1200, 4097});
  m.pad_vocab_to = draw.of<int64_t>({1, 8, 128});
  m.layers = draw.of<int64_t>({4, 6, 8, 11});
  m.max_position = 256;
  if (m.family == Family::phi3small) m.blocksparse.block = 8;
  if (m.rope.kind == RopeKind::longrope) {
    m.rope.short_factor.assign(8, 1.0);
    m.rope.long_factor.assign(8, 2.0);
  }
  return m;
}

PipelineSection random_pipeline(Draw& draw, int ranks) {
  PipelineSection p;
  p.ranks = ranks;
  if (ranks == 1) return p;
  const auto& kinds = schedule_kinds();
  p.schedule = kinds[static_cast<size_t>(draw.of<int>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})) % kinds.size()];
  p.chunks = draw.of<int64_t>({0, 0, 2});
  p.w_pass = draw.chance(25);
  p.resident_stages = draw.of<int64_t>({1, 2, 3});
  return p;
}

RunSpec random_spec(Draw& draw, int pipeline) {
  RunSpec s;
  s.model = random_model(draw);
  s.model.layers = std::max<int64_t>(s.model.layers, draw.of<int>({1, 2}) * pipeline);
  s.data.seq_len = draw.of<int64_t>({32, 75, 128});
  s.parallel.pipeline = random_pipeline(draw, pipeline);
  s.parallel.tensor = draw.of<int64_t>({1, 1, 2, 3, 4});
  s.parallel.sequence = draw.of<int64_t>({1, 1, 2, 3});
  s.parallel.data = draw.of<int64_t>({1, 2, 3});
  s.parallel.zero_stage = draw.of<int64_t>({0, 1, 2, 3});
  s.parallel.megatron_sp = s.parallel.tensor > 1 && draw.chance(50);
  s.train.micro_batch = draw.of<int64_t>({1, 2, 3});
  const int64_t each = s.train.micro_batch * s.parallel.data;
  s.train.global_batch = each * draw.of<int64_t>({1, 2, 3}) * (pipeline > 1 ? 2 * pipeline : 1);
  s.memory.recompute = draw.of<Recompute>({Recompute::none, Recompute::selective, Recompute::full});
  s.memory.loss_chunk_tokens = draw.of<int64_t>({16, 100, 1024});
  s.precision.compute = draw.of<DType>({DType::bf16, DType::f32});
  s.precision.gradients = draw.of<DType>({DType::bf16, DType::f32});
  s.memory.mlp_tile_tokens = draw.of<int64_t>({0, 0, 0, 7, 64});
  s.memory.sequence_chunk_tokens = draw.of<int64_t>({0, 0, 0, 16, 40});
  s.optimizer.kind = draw.of<OptimizerKind>({OptimizerKind::adamw, OptimizerKind::lion, OptimizerKind::muon});
  s.memory.offload.optimizer = draw.chance(25) ? Offload::host : Offload::none;
  if (s.memory.offload.optimizer == Offload::host && s.optimizer.kind != OptimizerKind::muon)
    s.memory.offload.device_share = draw.of<double>({0, 0.5, 1});
  s.memory.offload.early_gradients = s.memory.offload.device_share < 1 && draw.chance(50);
  const bool elementwise = s.optimizer.kind != OptimizerKind::muon && !s.memory.offload.early_gradients;
  if (pipeline == 1 && s.memory.offload.optimizer == Offload::host && elementwise && draw.chance(50))
    s.memory.offload.weights = Offload::host;
  if (s.memory.recompute == Recompute::full && draw.chance(50)) s.memory.offload.activations = Offload::host;
  return s;
}

}  // namespace

std::string RandomRun::text() const {
  return fmt::format("{}; {}, chunks {}; micro-batches of {}, {} a step; recompute {}, {}, {} gradients; {}{}{}",
                     describe_model(spec.model), describe(spec.parallel), spec.parallel.pipeline.chunks,
                     spec.train.micro_batch, spec.train.global_batch, spec.memory.recompute, spec.precision.compute,
                     spec.precision.gradients, spec.optimizer.kind,
                     spec.memory.offload.optimizer == Offload::host
                         ? fmt::format(", offloaded, device share {}, weights {}", spec.memory.offload.device_share,
                                       spec.memory.offload.weights)
                         : "",
                     spec.memory.sequence_chunk_tokens > 0
                         ? fmt::format(", sequences of {} in chunks of {}, offload {}", spec.data.seq_len,
                                       spec.memory.sequence_chunk_tokens, spec.memory.offload.activations)
                         : "");
}

RandomRun random_run(std::mt19937& random, const std::vector<int>& pipeline) {
  Draw draw(random);
  const int ranks = draw.of(pipeline);
  for (;;) {
    RandomRun r{random_spec(draw, ranks), {}};
    const ParallelSection& p = r.spec.parallel;
    try {
      r.mesh = arrange(r.spec, static_cast<int>(p.pipeline.ranks * p.tensor * p.sequence * p.data));
      plan_pipeline(r.spec).step(step_sizes(r.spec.train, r.mesh.dp()).back());
      return r;
    } catch (const ConfigError&) {
    }
  }
}

}  // namespace fp::test
