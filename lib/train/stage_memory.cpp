#include "train/stage_memory.h"

#include <algorithm>

#include "comm/counting.h"
#include "exec/model_stages.h"
#include "train/dry_run.h"
#include "train/setup.h"

namespace fp {
namespace {

// Runs one stage after the other, all on one rank without memory, and reads the arena.
class StageMeter {
 public:
  StageMeter(StageWork& work, Arena& arena, int stages) : work_(work), arena_(arena), last_(stages - 1) {}

  StageBytes measure(int stage) {
    StageBytes fused = play(stage, false), split = play(stage, true);
    split.working = std::max(split.working, fused.working);
    return split;
  }

 private:
  int64_t used() const { return static_cast<int64_t>(arena_.in_use()); }
  // Bytes at the worst moment of some work, beyond what there is now.
  template <class Work>
  int64_t worst_of(const Work& work) {
    const int64_t before = used();
    arena_.mark();
    work();
    return static_cast<int64_t>(arena_.most_in_use()) - before;
  }

  StageBytes play(int stage, bool split) {
    Action a{ActionKind::forward, 0, false, stage, 0};
    StageBytes bytes;
    const auto room = [&](bool there) { return there ? work_.room(a) : ArenaTensor(); };
    const auto size_of = [&](const ArenaTensor& t) { return t ? bytes.boundary : 0; };
    const int64_t empty = used();
    ArenaTensor x = work_.room(a);
    bytes.boundary = used() - empty;
    if (stage == 0) x.reset();
    ArenaTensor y;
    const int64_t forward = worst_of([&] { y = work_.forward(a, std::move(x)); });
    bytes.forward = used() - empty - size_of(y);
    bytes.working = forward - bytes.forward - size_of(y);
    y.reset();

    ArenaTensor dy = room(stage < last_), dx;
    const int64_t kept = bytes.forward;
    if (!split) {
      const int64_t backward = worst_of([&] { dx = work_.backward(a, std::move(dy), false); });
      bytes.working = std::max(bytes.working, backward - size_of(dx));
      return bytes;
    }
    const int64_t backward = worst_of([&] { dx = work_.backward_input(a, std::move(dy)); });
    bytes.backward = used() - empty - size_of(dx);
    bytes.working = std::max(bytes.working, backward - std::max<int64_t>(0, bytes.backward - kept) - size_of(dx));
    dx.reset();
    bytes.working = std::max(bytes.working, worst_of([&] { work_.backward_weight(a, false); }));
    return bytes;
  }

  StageWork& work_;
  Arena& arena_;
  int last_;
};

}  // namespace

std::vector<StageBytes> measure_stages(const RunSpec& spec, const PipelinePlan& plan, CountingOps& ops,
                                       const Mesh& mesh, const Coordinate& at) {
  const Mesh slices(1, 1, mesh.sp(), mesh.tp(), mesh.sp() * mesh.tp());
  const auto world = make_counting_world(slices.rank_of({0, 0, at.sp, at.tp}), slices.size());
  Arena arena;
  ModelOptions options = model_options(spec, plan, 0);
  options.held = {};
  options.gradients = DType::f32;
  options.zero_stage = 0;
  Model model(spec.model, options, ops, arena, make_groups(*world, slices));
  const Losses losses(model.env(), model.groups(), executor_options(spec).loss);
  WeightGather weights(model.env(), *model.groups().data);
  GradientSync gradients(model.env(), model.groups());
  ModelStages stages(model, model.groups(), plan.stages, losses, weights, gradients);
  const Batch batch = shape_only(spec);
  Schedule one{"one micro-batch", {}, 1, {{}}};
  const int count = static_cast<int>(plan.stages.size());
  one.placement.chunks = count;
  gradients.begin_step();
  stages.begin_step(one, std::span(&batch, 1), losses.spec(std::span(&batch, 1)));
  StageMeter meter(stages, arena, count);
  std::vector<StageBytes> bytes;
  for (int s = 0; s < count; ++s) bytes.push_back(meter.measure(s));
  stages.end_step();
  return bytes;
}

}  // namespace fp
