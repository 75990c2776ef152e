#include "planner/part_costs.h"

#include <algorithm>
#include <utility>

#include "dryrun/dry_run.h"
#include "dryrun/setup.h"
#include "dryrun/stage_memory.h"
#include "exec/model_stages.h"
#include "planner/timeline.h"

namespace fp {
namespace {

// Number of layers after which the pattern of layer kinds repeats.
int64_t kinds_of(const ModelSection& m) {
  const int64_t period = m.traits().blocksparse ? m.blocksparse.dense_every : 1;
  return std::clamp<int64_t>(period, 1, m.layers);
}

// A model with one layer of each kind, as stages: embedding, layers, LM head.
std::vector<StagePart> parts_of(int64_t kinds) {
  std::vector<StagePart> parts{{0, 0, true, false}};
  for (int64_t l = 0; l < kinds; ++l) parts.push_back({l, 1, false, false});
  parts.push_back({kinds, 0, false, true});
  return parts;
}

// The spec of a model with one layer of each kind, with the same tensor and sequence parallelism and no other.
RunSpec slice_of(const RunSpec& spec, Recompute recompute) {
  RunSpec s = spec;
  s.model.layers = kinds_of(spec.model);
  s.parallel.pipeline = {};
  s.parallel.data = 1;
  s.parallel.zero_stage = 0;
  s.precision.gradients = DType::f32;
  s.memory.recompute = recompute;
  s.memory.offload.optimizer = s.memory.offload.weights = Offload::none;
  return s;
}

class PartTimer {
 public:
  PartTimer(StageWork& work, const Timeline& clock, int stages) : work_(work), clock_(clock), last_(stages - 1) {}

  void run(int stage, PartCosts& costs) {
    const Action a{ActionKind::forward, 0, false, stage, 0};
    for (const bool fused : {true, false}) {
      ArenaTensor x = stage > 0 ? work_.allocate_input(a) : ArenaTensor(), y;
      costs.forward = timed([&] { y = work_.forward(a, OffloadedTensor(std::move(x))); });
      y.reset();
      ArenaTensor dy = stage < last_ ? work_.allocate_input(a) : ArenaTensor();
      if (fused) {
        costs.backward = timed([&] { work_.backward(a, std::move(dy), false); });
      } else {
        costs.backward_input = timed([&] { work_.backward_input(a, std::move(dy)); });
        costs.backward_weight = timed([&] { work_.backward_weight(a, false); });
      }
    }
  }

 private:
  template <class Work>
  PassSeconds timed(const Work& work) {
    const double start = clock_.now(), waited = clock_.exposed(), copies = clock_.exposed_copies();
    work();
    return {clock_.now() - start, clock_.exposed() - waited, clock_.exposed_copies() - copies};
  }

  StageWork& work_;
  const Timeline& clock_;
  int last_;
};

// Adds what the passes of a layer wait for the copy of an input, which begins with the pass.
void add_copies(double seconds, const CostModel& costs, PartCosts& layer) {
  for (PassSeconds* const pass : {&layer.forward, &layer.backward_input, &layer.backward}) {
    const double waits = costs.exposed_copy_seconds(seconds, pass->total);
    *pass += {waits, 0, waits};
  }
}

int64_t elements_of(const ParamTable& table, const std::vector<int>& units) {
  int64_t sum = 0;
  for (const int u : units) sum += table.units()[static_cast<size_t>(u)].elements;
  return sum;
}

}  // namespace

PartCosts& PartCosts::operator+=(const PartCosts& o) {
  forward += o.forward;
  backward_input += o.backward_input;
  backward_weight += o.backward_weight;
  backward += o.backward;
  bytes.forward += o.bytes.forward;
  bytes.backward += o.bytes.backward;
  for (size_t i = 0; i < bytes.working.size(); ++i) bytes.working[i] = std::max(bytes.working[i], o.bytes.working[i]);
  bytes.boundary = std::max(bytes.boundary, o.bytes.boundary);
  bytes.offloaded += o.bytes.offloaded;
  bytes.offloaded_working = std::max(bytes.offloaded_working, o.bytes.offloaded_working);
  parameters += o.parameters;
  return *this;
}

bool in_chunks(const RunSpec& s) {
  return s.memory.sequence_chunk_tokens > 0 && s.memory.sequence_chunk_tokens < s.data.seq_len;
}

PartCosts without_offload(PartCosts c) {
  for (PassSeconds* const pass : {&c.forward, &c.backward_input, &c.backward}) {
    pass->total -= pass->copies;
    pass->copies = 0;
  }
  c.bytes.forward += std::exchange(c.bytes.offloaded, 0);
  return c;
}

ModelCosts part_costs(const RunSpec& whole, Recompute recompute, const CostModel& costs, CountingOps& ops) {
  const RunSpec spec = slice_of(whole, recompute);
  const int64_t kinds = spec.model.layers;
  PipelinePlan plan = single_stage(kinds, false);
  plan.stages = parts_of(kinds);
  const int count = static_cast<int>(plan.stages.size());
  const Mesh mesh(1, 1, static_cast<int>(spec.parallel.sequence), static_cast<int>(spec.parallel.tensor),
                  static_cast<int>(spec.parallel.sequence * spec.parallel.tensor));
  const std::vector<StageBytes> bytes = measure_stages(spec, plan, ops, mesh, {});

  const auto world = make_counting_world(0, mesh.size());
  Arena arena, host_arena(Residence::host);
  ModelOptions options = model_options(spec);
  // The layers are timed one by one. A chunk's copies overlap other chunks of the layer, those of a sequence in one
  // chunk the next layer.
  options.offload_activations = options.offload_activations && in_chunks(spec);
  Model model(spec.model, options, ops, arena, make_groups(*world, mesh), &host_arena);
  const Losses losses(model.env(), model.groups(), executor_options(spec).loss);
  WeightGather weights(model.env(), *model.groups().data);
  GradientSync gradients(model.env(), model.groups());
  ModelStages stages(model, model.groups(), plan.stages, losses, weights, gradients);
  const Batch batch = shape_only(spec);
  const std::vector<Batch> both(2, batch);
  Schedule one{"one micro-batch", {}, 2, {{}}};
  one.placement.chunks = count;
  gradients.begin_step();
  stages.begin_step(one, both, losses.spec(both));

  Timeline clock(costs);
  const Watch watch(clock, ops, *world);
  PartTimer timer(stages, clock, count);
  ModelCosts result;
  result.layers.resize(static_cast<size_t>(kinds));
  for (int s = 0; s < count; ++s) {
    PartCosts& part = s == 0           ? result.embedding
                      : s + 1 == count ? result.head
                                       : result.layers[static_cast<size_t>(s - 1)];
    timer.run(s, part);
    part.bytes = bytes[static_cast<size_t>(s)];
    if (part.bytes.offloaded > 0 && !in_chunks(spec)) add_copies(costs.copy_seconds(part.bytes.offloaded), costs, part);
  }
  stages.end_step();
  const ParamTable& table = model.table();
  result.embedding.parameters = elements_of(table, table.embedding_units());
  result.head.parameters = elements_of(table, table.head_units());
  for (int64_t l = 0; l < kinds; ++l)
    result.layers[static_cast<size_t>(l)].parameters = elements_of(table, {table.layer_unit(l)});
  for (const int u : table.embedding_units())
    if (table.is_tied_unit(u)) result.shared += table.units()[static_cast<size_t>(u)].elements;
  return result;
}

}  // namespace fp
