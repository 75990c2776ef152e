#include "exec/model_stages.h"

#include <algorithm>
#include <utility>

namespace fp {

ModelStages::ModelStages(Model& model, const Groups& groups, const std::vector<StagePart>& parts, const Losses& losses,
                         WeightGather& weights, GradientSync& gradients, bool breadth_first)
    : model_(&model),
      groups_(&groups),
      parts_(&parts),
      losses_(&losses),
      weights_(&weights),
      gradients_(&gradients),
      reductions_(model.table(), parts, gradients),
      breadth_first_(breadth_first) {}

void ModelStages::begin_step(const Schedule& schedule, std::span<const Batch> batches, const LossSpec& spec) {
  schedule_ = &schedule;
  batches_ = batches;
  spec_ = spec;
  training_ = true;
  parks_ = breadth_first_ && model_->env().host != nullptr && batches.size() > StageLinks::kNear;
  position_ = 0;
  departures_ = {};
  sums_.assign(batches.size(), {});
  reductions_.begin_step(schedule.ranks[static_cast<size_t>(groups_->at.pp)]);
}

void ModelStages::begin_evaluation(const Schedule& schedule, std::span<const Batch> batches) {
  schedule_ = &schedule;
  batches_ = batches;
  training_ = false;
  departures_ = {};
}

std::vector<LossSums> ModelStages::end_step() {
  read_losses(0);
  reductions_.end_step();
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

ArenaTensor ModelStages::allocate_input(const Action& a) {
  const ModelEnv& e = model_->env();
  current_ = schedule_->batch_of(a);
  begin("buffer for a message");
  return e.alloc({local_rows(shares_of(e, batch(a))), e.arch->hidden});
}

// The backward pass of a whole sequence soon follows its last layer, unless other micro-batches pass before.
bool ModelStages::leaves(const StagePart& p, int64_t l, size_t chunks) const {
  if (offloads_stream(chunks)) return l == p.layers ? p.head : !training_ || recomputes(p, l);
  if (model_->env().host == nullptr || !training_) return false;
  if (l == p.layers) return p.head && parks_;
  return recomputes(p, l) && (parks_ || !(p.head && l + 1 == p.layers));
}

StageState ModelStages::new_state(const StagePart& p, size_t chunks) const {
  StageState s;
  s.layers.resize(static_cast<size_t>(p.layers));
  for (int64_t l = 0; l < p.layers; ++l) {
    LayerState& layer = s.layers[static_cast<size_t>(l)];
    layer.inputs.resize(chunks);
    layer.chunks.resize(chunks);
    layer.kv = KeyValues(model_->env(), chunks, offloads_stream(chunks) && (!training_ || recomputes(p, l)));
  }
  s.outputs.resize(chunks);
  s.gradients.resize(chunks);
  return s;
}

void ModelStages::put_input(const StagePart& p, StageState& s, int64_t l, size_t chunk, OffloadedTensor x) {
  std::vector<OffloadedTensor>& chunks = s.inputs_of(l);
  chunks[chunk] = std::move(x);
  if (leaves(p, l, chunks.size()))
    departures_.keep(model_->env(), chunks[chunk]);
  else
    chunks[chunk].keep_on_device();
}

void ModelStages::run_embedding(const StagePart& p, const DeviceBatch& batch, StageState& s) {
  const std::vector<int> embedding = model_->table().embedding_units();
  begin("forward of the embedding");
  for (const int u : embedding) weights_->acquire(u);
  for (const MicroBatch& chunk : batch.chunks)
    put_input(p, s, 0, chunk.chunk, OffloadedTensor(model_->embedding().forward(chunk)));
  for (const int u : embedding) weights_->release(u);
}

ArenaTensor ModelStages::run_layers(const StagePart& p, const DeviceBatch& batch, StageState& s) {
  const size_t chunks = batch.chunks.size();
  const std::vector<ChunkPass> passes = forward_passes(p.layers, chunks);
  ArenaTensor whole;
  for (size_t i = 0; i < passes.size(); ++i) {
    const auto [l, c, keys_only] = passes[i];
    LayerState& layer = s.layers[static_cast<size_t>(l)];
    tick();
    begin("forward", p.first_layer + l);
    if (c == 0)
      weights_->acquire(unit(p, l), l + 1 < p.layers ? unit(p, l + 1)
                                    : p.head         ? model_->table().head_units().back()
                                                     : -1);
    if (i + 1 < passes.size()) s.inputs_of(passes[i + 1].layer)[passes[i + 1].chunk].fetch();
    ArenaTensor y = block(p, l).forward(layer.inputs[c].on_device(), batch.chunks[c], layer.chunks[c], layer.kv);
    training_ ? layer.inputs[c].release() : layer.inputs[c].reset();
    if (l + 1 == p.layers && !p.head)
      collect(model_->env(), std::move(y), batch, c, whole);
    else
      put_input(p, s, l + 1, c, OffloadedTensor(std::move(y)));
    if (c + 1 < chunks) continue;
    block(p, l).end_forward(batch.chunks[c], layer.kv);
    weights_->release(unit(p, l));
  }
  departures_.flush();
  if (p.layers == 0 && !p.head)
    for (size_t c = 0; c < chunks; ++c) collect(model_->env(), s.outputs[c].take(), batch, c, whole);
  return whole;
}

ArenaTensor ModelStages::forward(const Action& a, OffloadedTensor x) {
  current_ = schedule_->batch_of(a);
  enter(a);
  const StagePart& p = part(a.stage);
  const DeviceBatch& mine = micro_batch_of(a);
  StageState passing = new_state(p, mine.chunks.size());
  StageState& state = training_ ? states_[{a.pipe, a.stage, a.micro_batch}] = std::move(passing) : passing;
  if (p.embedding) run_embedding(p, mine, state);
  if (!p.embedding && mine.chunks.size() == 1) {
    put_input(p, state, 0, 0, std::move(x));
  } else if (!p.embedding) {
    ArenaTensor whole = x.take();
    for (size_t c = 0; c < mine.chunks.size(); ++c)
      put_input(p, state, 0, c, OffloadedTensor(take_chunk(model_->env(), whole, mine, c)));
  }
  ArenaTensor y = run_layers(p, mine, state);
  if (p.head && !training_) run_head_forward(a, state);
  if (!training_) leave(a);
  return y;
}

void ModelStages::acquire_head(int next) {
  const std::vector<int> units = model_->table().head_units();
  for (const int u : units) weights_->acquire(u, u == units.back() ? next : -1);
}

void ModelStages::release_head() {
  for (const int u : model_->table().head_units()) weights_->release(u);
}

void ModelStages::run_head_forward(const Action& a, StageState& s) {
  begin("LM head and loss");
  const DeviceBatch& mine = micro_batch_of(a);
  ArenaTensor loss = model_->env().alloc_f32({mine.rows(), 2});
  acquire_head(-1);
  losses_of(mine, s, loss, losses_->of_tokens());
  release_head();
  s.outputs.clear();
  unread_.push_back({schedule_->batch_of(a), std::move(loss)});
}

void ModelStages::losses_of(const DeviceBatch& batch, StageState& s, const Tensor& loss, const LossSpec& spec) {
  for (const MicroBatch& m : batch.chunks) {
    if (m.chunk + 1 < s.outputs.size()) s.outputs[m.chunk + 1].fetch();
    model_->head().forward(s.outputs[m.chunk].on_device(), m, batch.of_chunk(loss, m.chunk), spec);
    s.outputs[m.chunk].release();
  }
}

void ModelStages::run_head(const Action& a) {
  const StagePart& p = part(a.stage);
  const DeviceBatch& mine = micro_batch_of(a);
  StageState& s = state_of(a);
  const int b = schedule_->batch_of(a);
  begin("LM head and loss");
  ArenaTensor loss = model_->env().alloc_f32({mine.rows(), 2});
  acquire_head(p.layers > 0 ? unit(p, p.layers - 1) : -1);
  for (const int u : model_->table().head_units()) gradients_->open(u);
  LossSpec spec = spec_;
  std::vector<double> row_scales;
  if (losses_->has_row_weights()) {  // the gradient scale of an answer depends on the losses of both in its pair
    losses_of(mine, s, loss, spec);
    sums_[static_cast<size_t>(b)] = losses_->sums(batch(a), loss, &row_scales);
    spec.sample_scales = row_scales;
  }
  for (const MicroBatch& m : mine.chunks) {
    if (m.chunk + 1 < s.outputs.size()) s.outputs[m.chunk + 1].fetch();
    ArenaTensor x = s.outputs[m.chunk].take();
    put_gradient(s, m.chunk, model_->head().forward_backward(std::move(x), m, mine.of_chunk(loss, m.chunk), spec));
  }
  departures_.flush();
  release_head();
  if (!losses_->has_row_weights()) unread_.push_back({b, std::move(loss)});
}

void ModelStages::put_gradient(StageState& s, size_t chunk, ArenaTensor dx) {
  s.gradients[chunk] = OffloadedTensor(std::move(dx));
  if (offloads_stream(s.gradients.size())) departures_.send(model_->env(), s.gradients[chunk]);
}

ArenaTensor ModelStages::run_layers_backward(const Action& a, bool fused, bool reduces) {
  const StagePart& p = part(a.stage);
  const DeviceBatch& mine = micro_batch_of(a);
  StageState& s = state_of(a);
  std::vector<bool> restores;
  for (int64_t l = 0; l < p.layers; ++l) restores.push_back(recomputes(p, l));
  const std::vector<ChunkPass> passes = backward_passes(restores, mine.chunks.size());
  ArenaTensor whole;
  for (size_t i = 0; i < passes.size(); ++i) {
    const auto [l, c, keys_only] = passes[i];
    LayerState& layer = s.layers[static_cast<size_t>(l)];
    const bool first = i == 0 || passes[i - 1].layer != l, last = !keys_only && c == 0;
    begin(fused ? "backward" : "input gradient", p.first_layer + l);
    if (first) {
      weights_->acquire(unit(p, l), l > 0 ? unit(p, l - 1) : -1);
      if (fused) gradients_->open(unit(p, l));
    }
    tick();
    for (size_t n = i; n < std::min(i + 2, passes.size()); ++n) {
      s.layers[static_cast<size_t>(passes[n].layer)].inputs[passes[n].chunk].fetch();
      if (!passes[n].keys_only) s.gradients[passes[n].chunk].fetch();
    }
    if (keys_only) {
      block(p, l).restore_keys(layer.inputs[c].on_device(), mine.chunks[c], layer.kv);
      layer.inputs[c].release();
      continue;
    }
    layer.chunks[c].x = layer.inputs[c].keep_on_device();
    ArenaTensor dy = s.gradients[c].take();
    dy = fused ? block(p, l).backward(std::move(dy), mine.chunks[c], layer.chunks[c], layer.kv)
               : block(p, l).backward_input(std::move(dy), mine.chunks[c], layer.chunks[c], layer.kv);
    if (fused) layer.inputs[c].reset();
    if (l == 0 && !p.embedding)
      collect(model_->env(), std::move(dy), mine, c, whole);
    else
      put_gradient(s, c, std::move(dy));
    if (!last) continue;
    weights_->release(unit(p, l));
    if (fused && reduces) reductions_.reduce(unit(p, l), a.stage);
  }
  departures_.flush();
  if (p.layers == 0 && !p.embedding)
    for (size_t c = 0; c < mine.chunks.size(); ++c) collect(model_->env(), s.gradients[c].take(), mine, c, whole);
  return whole;
}

void ModelStages::fetch_first(const Action& a) {
  StageState& s = state_of(a);
  if (part(a.stage).head) return s.outputs.front().fetch();
  if (s.layers.empty()) return;
  std::vector<OffloadedTensor>& inputs = s.layers.back().inputs;
  const bool restores = recomputes(part(a.stage), part(a.stage).layers - 1);
  (restores ? inputs.front() : inputs.back()).fetch();
}

void ModelStages::fetch_ahead(const Action& a) {
  if (!parks_) return;
  const std::vector<Action>& list = schedule_->ranks[static_cast<size_t>(groups_->at.pp)];
  const auto is_backward = [](const Action& x) {
    return x.kind == ActionKind::backward || x.kind == ActionKind::backward_input;
  };
  fetch_first(a);
  while (list.at(position_) != a) ++position_;
  const auto next = std::find_if(list.begin() + static_cast<ptrdiff_t>(position_) + 1, list.end(), is_backward);
  if (next != list.end()) fetch_first(*next);
}

ArenaTensor ModelStages::backward_input(const Action& a, ArenaTensor dy) {
  current_ = schedule_->batch_of(a);
  fetch_ahead(a);
  begin_backward(a, std::move(dy));
  return run_layers_backward(a, false, false);
}

void ModelStages::begin_backward(const Action& a, ArenaTensor dy) {
  if (part(a.stage).head) return run_head(a);
  const DeviceBatch& mine = micro_batch_of(a);
  for (size_t c = 0; c < mine.chunks.size(); ++c) put_gradient(state_of(a), c, take_chunk(model_->env(), dy, mine, c));
  departures_.flush();
}

void ModelStages::backward_weight(const Action& a, bool reduces) {
  current_ = schedule_->batch_of(a);
  const StagePart& p = part(a.stage);
  std::vector<LayerState>& layers = state_of(a).layers;
  if (p.head && reduces) reductions_.reduce_head(a.stage);
  for (int64_t l = p.layers; l-- > 0;) {
    const Block& b = block(p, l);
    LayerState& layer = layers[static_cast<size_t>(l)];
    tick();
    begin("weight gradients", p.first_layer + l);
    gradients_->open(unit(p, l));
    if (b.recomputes_for_weight_gradients()) weights_->acquire(unit(p, l));
    for (size_t c = layer.chunks.size(); c-- > 0;) {
      b.backward_weight(layer.chunks[c]);
      layer.inputs[c].reset();
    }
    if (b.recomputes_for_weight_gradients()) weights_->release(unit(p, l));
    if (reduces) reductions_.reduce(unit(p, l), a.stage);
  }
  release_state(a, reduces);
}

ArenaTensor ModelStages::backward(const Action& a, ArenaTensor dy, bool reduces) {
  current_ = schedule_->batch_of(a);
  fetch_ahead(a);
  begin_backward(a, std::move(dy));
  if (part(a.stage).head && reduces) reductions_.reduce_head(a.stage);
  ArenaTensor dx = run_layers_backward(a, true, reduces);
  release_state(a, reduces);
  return dx;
}

// The embedding's gradients are the last that a micro-batch needs its state for.
void ModelStages::release_state(const Action& a, bool reduces) {
  if (part(a.stage).embedding) {
    const std::vector<int> embedding = model_->table().embedding_units();
    begin("backward of the embedding");
    for (const int u : embedding) gradients_->open(u);
    std::vector<OffloadedTensor>& gradients = state_of(a).gradients;
    for (const MicroBatch& chunk : micro_batch_of(a).chunks) {
      if (chunk.chunk + 1 < gradients.size()) gradients[chunk.chunk + 1].fetch();
      model_->embedding().backward_weight(gradients[chunk.chunk].take(), chunk);
    }
    if (reduces)
      for (auto u = embedding.rbegin(); u != embedding.rend(); ++u) reductions_.reduce(*u, a.stage);
  }
  states_.erase({a.pipe, a.stage, a.micro_batch});
  leave(a);
  const bool alone = parts_->size() == 1;
  read_losses(alone ? 0 : 1);
  // Nothing stays in flight: its buffers would lie elsewhere in every micro-batch, and a dry run of two could not
  // predict the arena's growth over many. Dry runs of pipelines run all of a step.
  if (alone && reduces) gradients_->settle();
}

void ModelStages::gather(int stage) {
  for (const int u : reductions_.units(stage)) weights_->hold(u);
}

void ModelStages::free(int stage) {
  for (const int u : reductions_.units(stage)) weights_->release(u);
}

void ModelStages::reduce(int stage) { reductions_.reduce_stage(stage); }

ArenaTensor ModelStages::hidden(const Batch& b) {
  FP_CHECK(parts_->size() == 1, "a model in {} stages is on several ranks", parts_->size());
  const DeviceBatch whole = upload(model_->env(), b, false);
  FP_CHECK(whole.chunks.size() == 1, "logits of a sequence in {} chunks", whole.chunks.size());
  training_ = false;
  StageState s = new_state(part(0), 1);
  run_embedding(part(0), whole, s);
  run_layers(part(0), whole, s);
  return s.outputs[0].take();
}

}  // namespace fp
