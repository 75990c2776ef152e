#include "bench/step_rig.h"

#include "base/philox.h"
#include "dryrun/setup.h"

namespace fp {

std::vector<Batch> random_batches(const RunSpec& spec, int data_ranks) {
  std::vector<Batch> batches(static_cast<size_t>(spec.train.global_batch / spec.train.micro_batch / data_ranks));
  uint64_t state = spec.run.seed;
  for (Batch& b : batches) {
    b.resize(spec.train.micro_batch, spec.data.seq_len);
    for (int64_t i = 0; i < b.n * b.seq_len; ++i) {
      const auto at = static_cast<size_t>(i);
      b.tokens[at] = static_cast<int32_t>(Philox::mix(state++) % static_cast<uint64_t>(spec.model.vocab));
      b.targets[at] = static_cast<int32_t>(Philox::mix(state++) % static_cast<uint64_t>(spec.model.vocab));
      b.positions[at] = static_cast<int32_t>(i % b.seq_len);
      b.doc_start[at] = 0;
    }
    for (size_t i = 0; i < b.sample_ids.size(); ++i) b.sample_ids[i] = i;
  }
  return batches;
}

namespace {

ExecutorOptions options_of(const RunSpec& spec, bool synchronous_update) {
  ExecutorOptions o = executor_options(spec, plan_pipeline(spec));
  o.synchronous_update = synchronous_update;
  return o;
}

ExecutorOptions options_of(const RunSpec& spec, const PipelinePlan& plan, const Ops& ops) {
  ExecutorOptions o = executor_options(spec, plan);
  o.assume_within_limit = ops.name() == "counting";
  return o;
}

}  // namespace

StepRig::StepRig(const RunSpec& spec, Arena& arena, Ops& ops, Arena* host, bool synchronous_update)
    : spec_(spec),
      groups_(make_self_groups()),
      model_(spec.model, model_options(spec), ops, arena, groups_, host),
      executor_(model_, options_of(spec, synchronous_update)),
      batches_(random_batches(spec)),
      ops_(ops) {}

StepRig::StepRig(const RunSpec& spec, const PipelinePlan& plan, Arena& arena, Ops& ops, Arena* host,
                 const Groups& groups)
    : spec_(spec),
      groups_(groups),
      model_(spec.model, model_options(spec, plan, groups.at.pp), ops, arena, groups_, host),
      executor_(model_, options_of(spec, plan, ops)),
      batches_(random_batches(spec, groups.mesh.dp())),
      ops_(ops) {}

void StepRig::initialize() { model_.params().initialize(ops_, spec_.run.seed); }

void StepRig::step() {
  run_passes();
  run_update();
}

void StepRig::run_passes() {
  executor_.accumulate(batches_);
  ops_.synchronize();
}

void StepRig::run_update() {
  const GradientNorm g = executor_.gradient_norm();
  executor_.update(spec_.optimizer, 1e-4, ++count_, g.norm);
  ops_.synchronize();
}

}  // namespace fp
