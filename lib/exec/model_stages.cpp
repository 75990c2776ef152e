#include "exec/model_stages.h"

#include <algorithm>
#include <utility>

namespace fp {

ModelStages::ModelStages(Model& model, const Groups& groups, const std::vector<StagePart>& parts, const Losses& losses,
                         WeightGather& weights, GradientSync& gradients)
    : model_(&model), groups_(&groups), parts_(&parts), losses_(&losses), weights_(&weights), gradients_(&gradients) {}

void ModelStages::begin_step(const Schedule& schedule, std::span<const Batch> batches, const LossSpec& spec) {
  schedule_ = &schedule;
  batches_ = batches;
  spec_ = spec;
  training_ = true;
  sums_.assign(batches.size(), {});
  sums_to_come_.clear();
  for (const Action& a : schedule.ranks[static_cast<size_t>(groups_->at.pp)])
    if (a.kind == ActionKind::reduce)
      for (const int unit : units(a.stage)) ++sums_to_come_[unit];
}

void ModelStages::begin_evaluation(const Schedule& schedule, std::span<const Batch> batches) {
  schedule_ = &schedule;
  batches_ = batches;
  training_ = false;
}

std::vector<LossSums> ModelStages::end_step() {
  read_losses(0);
  for (const auto& [unit, left] : sums_to_come_)
    FP_CHECK(left == 0, "{} reductions of the gradients of unit {} are missing", left, unit);
  FP_CHECK(states_.empty() && uploaded_.empty(), "{} micro-batches were not finished", states_.size());
  return std::move(sums_);
}

std::vector<ArenaTensor> ModelStages::end_evaluation() {
  std::vector<ArenaTensor> losses(batches_.size());
  for (Loss& l : unread_) losses[static_cast<size_t>(l.batch)] = std::move(l.tensor);
  unread_.clear();
  return losses;
}

void ModelStages::enter(const Action& a) {
  const int b = schedule_->batch_of(a);
  begin("tokens of a batch");
  if (!uploaded_.contains(b)) uploaded_[b].batch = upload(model_->env(), batches_[static_cast<size_t>(b)], training_);
  ++uploaded_.at(b).uses;
}

void ModelStages::leave(const Action& a) {
  const auto it = uploaded_.find(schedule_->batch_of(a));
  if (--it->second.uses == 0) uploaded_.erase(it);
}

// The device may lag behind. In a pipeline, reading the newest losses at once would stall the rank, so they are kept.
void ModelStages::read_losses(int keep) {
  while (static_cast<int>(unread_.size()) > keep) {
    const Loss& l = unread_.front();
    sums_[static_cast<size_t>(l.batch)] = losses_->sums(batches_[static_cast<size_t>(l.batch)], l.tensor);
    unread_.erase(unread_.begin());
  }
}

void ModelStages::begin(std::string_view what, int64_t layer) {
  model_->env().arena->enter({what, layer, current_, !training_});
}

// Lets messages make progress while this rank computes.
void ModelStages::tick() {
  groups_->record->tick();
  groups_->comm_world->progress();
}

// The units of a stage in the order in which their gradients become complete.
std::vector<int> ModelStages::units(int stage) const {
  const ParamTable& table = model_->table();
  const StagePart& p = part(stage);
  const std::vector<int> embedding = p.embedding ? table.embedding_units() : std::vector<int>();
  std::vector<int> list;
  if (p.head)
    for (const int u : table.head_units())
      if (std::find(embedding.begin(), embedding.end(), u) == embedding.end()) list.push_back(u);
  for (int64_t l = p.layers; l-- > 0;) list.push_back(table.layer_unit(p.first_layer + l));
  list.insert(list.end(), embedding.rbegin(), embedding.rend());
  return list;
}

ArenaTensor ModelStages::allocate_input(const Action& a) {
  const ModelEnv& e = model_->env();
  current_ = schedule_->batch_of(a);
  begin("buffer for a message");
  return e.alloc({share_of(e, batch(a)).local_rows, e.arch->hidden});
}

ArenaTensor ModelStages::run_embedding(const MicroBatch& batch) {
  const std::vector<int> embedding = model_->table().embedding_units();
  begin("forward of the embedding");
  for (const int u : embedding) weights_->acquire(u);
  ArenaTensor x = model_->embedding().forward(batch);
  for (const int u : embedding) weights_->release(u);
  return x;
}

// The backward pass soon follows the last layer.
bool ModelStages::offloads(const StagePart& p, int64_t l) const {
  return model_->env().host != nullptr && !(p.head && l + 1 == p.layers) &&
         model_->blocks()[static_cast<size_t>(p.first_layer + l)].recompute() == Recompute::full;
}

void ModelStages::take_input(const StagePart& p, MicroBatchState& s, int64_t l) {
  for (const int64_t i : {l, l - 1})
    if (i >= 0 && offloads(p, i)) s.inputs[static_cast<size_t>(i)].fetch(s.blocks[static_cast<size_t>(i)].x);
  if (offloads(p, l)) s.inputs[static_cast<size_t>(l)].arrive();
}

ArenaTensor ModelStages::run_layers(const StagePart& p, ArenaTensor x, const MicroBatch& batch,
                                    MicroBatchState* state) {
  const ParamTable& table = model_->table();
  for (int64_t l = 0; l < p.layers; ++l) {
    const int64_t layer = p.first_layer + l;
    const int after = p.head ? table.head_units().back() : -1;
    tick();
    begin("forward", layer);
    weights_->acquire(table.layer_unit(layer), l + 1 < p.layers ? table.layer_unit(layer + 1) : after);
    BlockState nothing;
    BlockState& kept = state != nullptr ? state->blocks[static_cast<size_t>(l)] : nothing;
    OffloadedInput* const input = state != nullptr && offloads(p, l) ? &state->inputs[static_cast<size_t>(l)] : nullptr;
    if (input != nullptr) input->send(model_->env(), x);
    x = model_->blocks()[static_cast<size_t>(layer)].forward(std::move(x), batch, kept);
    if (input != nullptr) input->release(kept.x);
    weights_->release(table.layer_unit(layer));
  }
  return x;
}

ArenaTensor ModelStages::forward(const Action& a, ArenaTensor x) {
  current_ = schedule_->batch_of(a);
  enter(a);
  const StagePart& p = part(a.stage);
  const MicroBatch& mine = micro_batch_of(a);
  MicroBatchState* state = training_ ? &states_[{a.pipe, a.stage, a.micro_batch}] : nullptr;
  if (state != nullptr) {
    state->blocks.resize(static_cast<size_t>(p.layers));
    state->inputs = std::vector<OffloadedInput>(static_cast<size_t>(p.layers));
  }
  if (p.embedding) x = run_embedding(mine);
  x = run_layers(p, std::move(x), mine, state);
  if (p.head && training_) std::swap(state->top, x);
  if (p.head && !training_) run_head_forward(a, std::exchange(x, ArenaTensor()));
  if (!training_) leave(a);
  return x;
}

void ModelStages::acquire_head(int next) {
  const std::vector<int> units = model_->table().head_units();
  for (const int u : units) weights_->acquire(u, u == units.back() ? next : -1);
}

void ModelStages::release_head() {
  for (const int u : model_->table().head_units()) weights_->release(u);
}

void ModelStages::run_head_forward(const Action& a, ArenaTensor top) {
  begin("LM head and loss");
  ArenaTensor loss = model_->env().alloc_f32({micro_batch_of(a).rows(), 2});
  acquire_head(-1);
  model_->head().forward(top, micro_batch_of(a), loss, losses_->of_tokens());
  release_head();
  unread_.push_back({schedule_->batch_of(a), std::move(loss)});
}

ArenaTensor ModelStages::run_head(const Action& a) {
  const StagePart& p = part(a.stage);
  const MicroBatch& mine = micro_batch_of(a);
  const int b = schedule_->batch_of(a);
  begin("LM head and loss");
  ArenaTensor loss = model_->env().alloc_f32({mine.rows(), 2});
  acquire_head(p.layers > 0 ? model_->table().layer_unit(p.first_layer + p.layers - 1) : -1);
  for (const int u : model_->table().head_units()) gradients_->open(u);
  LossSpec spec = spec_;
  std::vector<double> row_scales;
  ArenaTensor top = std::move(state_of(a).top);
  if (losses_->has_row_weights()) {  // the gradient scale of an answer depends on the losses of both in its pair
    model_->head().forward(top, mine, loss, spec);
    sums_[static_cast<size_t>(b)] = losses_->sums(batch(a), loss, &row_scales);
    spec.sample_scales = row_scales;
  }
  ArenaTensor dx = model_->head().forward_backward(std::move(top), mine, loss, spec);
  release_head();
  if (!losses_->has_row_weights()) unread_.push_back({b, std::move(loss)});
  return dx;
}

ArenaTensor ModelStages::backward_input(const Action& a, ArenaTensor dy) {
  current_ = schedule_->batch_of(a);
  const StagePart& p = part(a.stage);
  if (p.head) dy = run_head(a);
  const MicroBatch& mine = micro_batch_of(a);
  MicroBatchState& state = state_of(a);
  const ParamTable& table = model_->table();
  for (int64_t l = p.layers; l-- > 0;) {
    const int64_t layer = p.first_layer + l;
    tick();
    begin("input gradient", layer);
    weights_->acquire(table.layer_unit(layer), l > 0 ? table.layer_unit(layer - 1) : -1);
    take_input(p, state, l);
    dy = model_->blocks()[static_cast<size_t>(layer)].backward_input(std::move(dy), mine,
                                                                     state.blocks[static_cast<size_t>(l)]);
    weights_->release(table.layer_unit(layer));
  }
  if (p.embedding) std::swap(state.embedding, dy);
  return dy;
}

void ModelStages::backward_weight(const Action& a, bool reduces) {
  current_ = schedule_->batch_of(a);
  const StagePart& p = part(a.stage);
  std::vector<BlockState>& states = state_of(a).blocks;
  const ParamTable& table = model_->table();
  if (p.head && reduces) reduce_head(a.stage);
  for (int64_t l = p.layers; l-- > 0;) {
    const int unit = table.layer_unit(p.first_layer + l);
    tick();
    begin("weight gradients", p.first_layer + l);
    gradients_->open(unit);
    model_->blocks()[static_cast<size_t>(p.first_layer + l)].backward_weight(states[static_cast<size_t>(l)]);
    if (reduces) reduce_unit(unit, a.stage);
  }
  release_state(a, reduces);
}

ArenaTensor ModelStages::backward(const Action& a, ArenaTensor dy, bool reduces) {
  current_ = schedule_->batch_of(a);
  const StagePart& p = part(a.stage);
  if (p.head) dy = run_head(a);
  if (p.head && reduces) reduce_head(a.stage);
  const MicroBatch& mine = micro_batch_of(a);
  MicroBatchState& state = state_of(a);
  const ParamTable& table = model_->table();
  for (int64_t l = p.layers; l-- > 0;) {
    const int64_t layer = p.first_layer + l;
    const Block& block = model_->blocks()[static_cast<size_t>(layer)];
    begin("backward", layer);
    weights_->acquire(table.layer_unit(layer), l > 0 ? table.layer_unit(layer - 1) : -1);
    tick();
    gradients_->open(table.layer_unit(layer));
    take_input(p, state, l);
    dy = block.backward_input(std::move(dy), mine, state.blocks[static_cast<size_t>(l)]);
    block.backward_weight(state.blocks[static_cast<size_t>(l)]);
    weights_->release(table.layer_unit(layer));
    if (reduces) reduce_unit(table.layer_unit(layer), a.stage);
  }
  if (p.embedding) std::swap(state.embedding, dy);
  release_state(a, reduces);
  return dy;
}

// The embedding's gradients are the last that a micro-batch needs its state for.
void ModelStages::release_state(const Action& a, bool reduces) {
  if (part(a.stage).embedding) {
    const std::vector<int> embedding = model_->table().embedding_units();
    begin("backward of the embedding");
    for (const int u : embedding) gradients_->open(u);
    model_->embedding().backward_weight(std::move(state_of(a).embedding), micro_batch_of(a));
    if (reduces)
      for (auto u = embedding.rbegin(); u != embedding.rend(); ++u) reduce_unit(*u, a.stage);
  }
  states_.erase({a.pipe, a.stage, a.micro_batch});
  leave(a);
  const bool alone = parts_->size() == 1;
  read_losses(alone ? 0 : 1);
  // Nothing stays in flight: its buffers would lie elsewhere in every micro-batch, and a dry run of two could not
  // predict the arena's growth over many. Dry runs of pipelines run all of a step.
  if (alone && reduces) gradients_->settle();
}

// If a rank has embedding and LM head in two stages, the unit that they share is reduced when both are done.
void ModelStages::reduce_unit(int unit, int stage) {
  const StagePart& p = part(stage);
  const bool in_two = !(p.embedding && p.head) && model_->table().is_tied_unit(unit);
  const int left = --sums_to_come_.at(unit);
  if (!in_two || left == 0) gradients_->reduce(unit, left == 0);
}

void ModelStages::reduce_head(int stage) {
  for (const int u : model_->table().head_units())
    if (!part(stage).embedding || !model_->table().is_tied_unit(u)) reduce_unit(u, stage);
}

void ModelStages::gather(int stage) {
  for (const int u : units(stage)) weights_->hold(u);
}

void ModelStages::free(int stage) {
  for (const int u : units(stage)) weights_->release(u);
}

void ModelStages::reduce(int stage) {
  for (const int u : units(stage)) reduce_unit(u, stage);
}

ArenaTensor ModelStages::hidden(const Batch& b) {
  FP_CHECK(parts_->size() == 1, "a model in {} stages is on several ranks", parts_->size());
  const DeviceBatch whole = upload(model_->env(), b, false);
  return run_layers(part(0), run_embedding(whole.view), whole.view, nullptr);
}

}  // namespace fp
