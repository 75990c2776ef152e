#include "dryrun/stage_memory.h"

#include <algorithm>
#include <map>
#include <string>

#include "comm/counting.h"
#include "dryrun/dry_run.h"
#include "dryrun/setup.h"
#include "exec/model_stages.h"

namespace fp {
namespace {

// Runs the stages one after the other on a single dry-run rank and measures the arena.
class StageMeter {
 public:
  StageMeter(StageWork& work, Arena& arena, Arena& host_arena, int stages)
      : work_(work), arena_(arena), host_arena_(host_arena), last_(stages - 1) {}

  // Runs two micro-batches: the first leaves memory in use that the second must add, losses that were not read yet.
  StageBytes measure(int stage) {
    StageBytes bytes;
    const int64_t empty = used();
    host_arena_.mark();
    run_fused(stage, bytes);
    const int64_t left = used() - empty;
    run_split(stage, bytes);
    bytes.offloaded_working = static_cast<int64_t>(host_arena_.most_in_use()) - bytes.offloaded;
    for (int64_t& w : bytes.working) w += left;
    return bytes;
  }

 private:
  int64_t used() const { return static_cast<int64_t>(arena_.in_use()); }
  // Returns the peak of some work above the memory in use now, in bytes.
  template <class Work>
  int64_t worst_of(const Work& work) {
    const int64_t before = used();
    arena_.mark();
    work();
    return static_cast<int64_t>(arena_.most_in_use()) - before;
  }
  static int64_t& working(StageBytes& bytes, ActionKind kind) { return bytes.working[static_cast<size_t>(kind)]; }
  int64_t size_of(const ArenaTensor& t, const StageBytes& bytes) const { return t ? bytes.boundary : 0; }
  ArenaTensor gradient(const Action& a) { return a.stage < last_ ? work_.allocate_input(a) : ArenaTensor(); }

  void run_forward(const Action& a, StageBytes& bytes) {
    const int64_t empty = used();
    ArenaTensor x = work_.allocate_input(a), y;
    bytes.boundary = used() - empty;
    if (a.stage == 0) x.reset();
    const int64_t worst = worst_of([&] { y = work_.forward(a, OffloadedTensor(std::move(x))); });
    bytes.forward = used() - empty - size_of(y, bytes);
    bytes.offloaded = static_cast<int64_t>(host_arena_.in_use());
    // If the stage keeps its input, that is part of bytes.forward.
    working(bytes, ActionKind::forward) = std::max<int64_t>(0, worst - bytes.forward - size_of(y, bytes));
  }

  void run_fused(int stage, StageBytes& bytes) {
    const Action a{ActionKind::forward, 0, false, stage, 0};
    run_forward(a, bytes);
    ArenaTensor dy = gradient(a), dx;
    const int64_t worst = worst_of([&] { dx = work_.backward(a, std::move(dy), false); });
    working(bytes, ActionKind::backward) = std::max<int64_t>(0, worst - size_of(dx, bytes));
  }

  void run_split(int stage, StageBytes& bytes) {
    const Action a{ActionKind::forward, 0, false, stage, 0};
    const int64_t empty = used();
    run_forward(a, bytes);
    ArenaTensor dy = gradient(a), dx;
    const int64_t worst = worst_of([&] { dx = work_.backward_input(a, std::move(dy)); });
    bytes.backward = used() - empty - size_of(dx, bytes);
    const int64_t more = std::max<int64_t>(0, bytes.backward - bytes.forward) + size_of(dx, bytes);
    working(bytes, ActionKind::backward_input) = std::max<int64_t>(0, worst - more);
    dx.reset();
    working(bytes, ActionKind::backward_weight) = worst_of([&] { work_.backward_weight(a, false); });
  }

  StageWork& work_;
  Arena& arena_;
  Arena& host_arena_;
  int last_;
};

// A key with everything that the memory of a stage depends on. Attention masks do not affect it.
std::string kind_of(const StagePart& p, const ModelOptions& options) {
  std::string kind = fmt::format("{}{}", p.embedding ? "embedding " : "", p.head ? "head " : "");
  for (int64_t l = p.first_layer; l < p.first_layer + p.layers; ++l) {
    const std::vector<Recompute>& by_layer = options.layer_recompute;
    const Recompute r = by_layer.empty() ? options.recompute : by_layer[static_cast<size_t>(l)];
    kind += fmt::format("{} ", static_cast<int>(r));
  }
  return kind;
}

}  // namespace

std::vector<StageBytes> measure_stages(const RunSpec& spec, const PipelinePlan& plan, CountingOps& ops,
                                       const Mesh& mesh, const Coordinate& at) {
  const Mesh slices(1, 1, mesh.sp(), mesh.tp(), mesh.sp() * mesh.tp());
  const auto world = make_counting_world(slices.rank_of({0, 0, at.sp, at.tp}), slices.size());
  Arena arena, host_arena(Residence::host);
  ModelOptions options = model_options(spec, plan, 0);
  options.held = {};
  options.gradients = DType::f32;
  options.zero_stage = 0;
  options.offload_optimizer = options.offload_weights = false;
  Model model(spec.model, options, ops, arena, make_groups(*world, slices), &host_arena);
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
  StageMeter meter(stages, arena, host_arena, count);
  std::vector<StageBytes> bytes;
  std::map<std::string, int> measured;  // first stage of each kind; stages of a kind need the same memory
  for (int s = 0; s < count; ++s) {
    const int like = measured.emplace(kind_of(plan.stages[static_cast<size_t>(s)], options), s).first->second;
    bytes.push_back(like < s ? bytes[static_cast<size_t>(like)] : meter.measure(s));
  }
  stages.end_step();
  return bytes;
}

}  // namespace fp
