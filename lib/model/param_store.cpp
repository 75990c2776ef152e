#include "model/param_store.h"

#include <algorithm>
#include <vector>

#include "base/progress.h"
#include "model/host_view.h"

namespace fp {

ParamStore::ParamStore(const ParamTable& table, const StoreOptions& options, Arena& arena, Arena* host)
    : table_(&table),
      options_(options),
      arena_(&arena),
      host_(host),
      states_(static_cast<size_t>(table.updated_slots()) - 1),
      attached_weights_(table.units().size()),
      attached_gradients_(table.units().size()),
      written_(table.size()) {
  const Residence of_weights = weights_on_host() ? Residence::host : Residence::device;
  const auto make = [&](Flat& flat, DType dtype, int sharded_from, MemoryClass what, std::optional<int> slot = {}) {
    const Residence residence = slot ? table.slots()[static_cast<size_t>(*slot)].residence : of_weights;
    FP_CHECK(residence == Residence::device || host != nullptr, "state in host memory without an arena there");
    if (of_weights == Residence::host) sharded_from = std::min(sharded_from, 1);
    flat.layout = FlatLayout(table, table.shards() > 1 && options.zero_stage >= sharded_from, slot);
    Arena& from = residence == Residence::device ? arena : *host;
    flat.memory = from.alloc(dtype, {flat.layout.capacity()}, what);
  };
  make(weights_, options.compute, 3, MemoryClass::parameters);
  if (!options.training) return;
  if (options.optimizer && options.compute != DType::f32)
    make(master_, DType::f32, 1, MemoryClass::optimizer, kParamSlot);
  make(grads_, options.gradients, 2, MemoryClass::gradients);
  if (!options.optimizer) return;
  for (size_t i = 0; i < states_.size(); ++i)
    make(states_[i], table.slots()[i + 1].dtype, 1, MemoryClass::optimizer, static_cast<int>(i) + 1);
  if (const int slot = table.error_slot(); slot >= 0)
    make(errors_, table.slots()[static_cast<size_t>(slot)].dtype, 0, MemoryClass::gradients, slot);
  state_sharded_ = table.shards() > 1 && options.zero_stage >= 1;
}

Arena& ParamStore::host_arena() const {
  FP_CHECK(host_ != nullptr, "no arena in host memory");
  return *host_;
}

Tensor ParamStore::Flat::at(const IndexRange& s) const {
  FP_CHECK(static_cast<bool>(memory), "this store holds weights only");
  const IndexRange here = layout.at(s);
  return memory->slice(here.first, here.count);
}

Tensor ParamStore::view(const Tensor& unit_memory, const ParamUnit& u, ParamId first, ParamId last) const {
  const Param& p = (*table_)[first];
  Shape shape = p.local;
  int64_t end = p.offset + p.local_elements();
  for (ParamId id = first + 1; id <= last; ++id) {
    const Param& next = (*table_)[id];
    FP_CHECK(next.offset == end, "{} does not follow {} in memory", next.name, p.name);
    shape[0] += next.local[0];
    end += next.local_elements();
  }
  return unit_memory.slice(p.offset - u.offset, end - p.offset).reshaped(shape);
}

Tensor ParamStore::weight(ParamId first, ParamId last) const {
  const auto unit = static_cast<size_t>(table_->unit_of(first));
  const ParamUnit& u = table_->units()[unit];
  FP_CHECK(!uses_attached_weights() || attached_weights_[unit], "the weights of unit {} are not on the device", unit);
  return view(uses_attached_weights() ? attached_weights_[unit] : unit_weights(u), u, first, last);
}

Tensor ParamStore::grad(ParamId first, ParamId last) const {
  const auto unit = static_cast<size_t>(table_->unit_of(first));
  const ParamUnit& u = table_->units()[unit];
  FP_CHECK(!uses_attached_gradients() || attached_gradients_[unit], "no memory attached for the gradients of unit {}",
           unit);
  return view(uses_attached_gradients() ? attached_gradients_[unit] : unit_gradients(u), u, first, last);
}

Tensor ParamStore::part(const Tensor& flat, ParamId id) const {
  const Param& p = (*table_)[id];
  return flat.reshaped({flat.elements()}).slice(p.offset, p.local_elements()).reshaped(p.local);
}

const ParamStore::Flat& ParamStore::flat(int slot) const {
  if (slot == table_->weights_slot()) return weights_;
  if (table_->is_error(slot)) return slot == table_->error_slot() ? errors_ : none_;
  return slot == kParamSlot ? masters() : states_[static_cast<size_t>(slot) - 1];
}

namespace {
IndexRange place_of(const ParamTable& table, const ParamPart& part) {
  return {table[part.id].offset + part.first, part.count};
}
}  // namespace

Tensor ParamStore::errors(const ParamUnit& u) const {
  if (!errors_.memory) return {};
  const std::vector<IndexRange> kept = table_->ranges_of(u, table_->shard(), table_->error_slot());
  const auto rows = static_cast<int64_t>(kept.size());
  return errors_.memory->slice(errors_.layout.at(kept.front()).first, rows * kept.front().count)
      .reshaped({rows, kept.front().count});
}

void ParamStore::clear_errors(Ops& ops) {
  if (errors_.memory) ops.zero({errors_.memory});
}

Tensor ParamStore::state(int slot, const ParamPart& part) const { return flat(slot).at(place_of(*table_, part)); }

Tensor ParamStore::kept_weights(const ParamPart& part) const { return weights_.at(place_of(*table_, part)); }

UpdateTensors ParamStore::update_tensors(const IndexRange& flat) const {
  UpdateTensors t{.param = masters().at(flat), .states = {}, .gradient = grads_.at(flat), .weights = {}};
  for (const Flat& state : states_) {
    const IndexRange here = state.layout.within(flat);
    t.states.push_back(state.memory->slice(here.first, here.count));
  }
  if (compute() != DType::f32) t.weights = weights_.at(flat);
  return t;
}

ParamRange ParamStore::range_of(const ParamPart& part, const IndexRange& flat) const {
  const Param& p = (*table_)[part.id];
  const IndexRange place = place_of(*table_, part);
  ParamRange range{{place.first - flat.first, part.count}, p.decay, p.matrix};
  for (int slot = kParamSlot + 1; slot < table_->updated_slots(); ++slot)
    if (table_->has_slot(part.id, slot)) {
      const FlatLayout& layout = this->flat(slot).layout;
      range.state_offset = layout.at(place).first - layout.within(flat).first;
    }
  return range;
}

void ParamStore::attach_gradients(int unit, const Tensor& memory) {
  attached_gradients_[static_cast<size_t>(unit)] = memory;
  const ParamUnit& u = table_->units()[static_cast<size_t>(unit)];
  if (memory) std::fill(written_.begin() + u.first, written_.begin() + u.last + 1, false);
}

Write ParamStore::grad_write(ParamId first, ParamId last) {
  const bool again = written_[static_cast<size_t>(first)];
  std::fill(written_.begin() + first, written_.begin() + last + 1, true);
  return again ? Write::add : Write::set;
}

void ParamStore::begin_step() { written_.assign(table_->size(), false); }

void ParamStore::finish_gradients(Ops& ops, int unit) {
  const ParamUnit& u = table_->units()[static_cast<size_t>(unit)];
  for (ParamId id = u.first; id <= u.last; ++id)
    if (!written_[static_cast<size_t>(id)]) ops.zero({grad(id)});
  if (const Tensor attached = attached_gradients(unit))
    for (const IndexRange& gap : table_->gaps(u)) ops.zero({attached.slice(gap.first - u.offset, gap.count)});
}

namespace {

// Computes the initial values of a box of a parameter.
void fill_box(const Param& p, const Fragment& box, uint64_t seed, std::vector<float>& out) {
  const int64_t columns = p.shape.rank() == 2 ? p.shape[1] : 1, width = p.shape.rank() == 2 ? box.count[1] : 1;
  const int64_t first = box.start[0] * columns + (p.shape.rank() == 2 ? box.start[1] : 0);
  out.resize(static_cast<size_t>(box.count.elements()));
  if (width == columns) return initial_values(p, seed, first, out);
  for (int64_t r = 0; r < box.count[0]; ++r)
    initial_values(p, seed, first + r * columns,
                   std::span(out).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width)));
}

}  // namespace

void ParamStore::initialize(Ops& ops, uint64_t seed) {
  std::vector<Tensor> all = {weights(), master(), grads()};
  for (const Flat& flat : states_) all.push_back(flat.memory);
  all.push_back(errors_.memory);
  for (const Tensor& flat : all)
    if (flat) zero_tensor(ops, flat);  // including the gaps between parameters
  std::vector<float> host;
  for (const ParamUnit& u : table_->units())
    for (const ParamPart& part : table_->parts(u, !masters().layout.sharded()))
      for (const Fragment& whole : table_->fragments_of(part))
        for (const Fragment& box : chunks(whole, 1 << 20)) {
          fill_box((*table_)[part.id], box, seed, host);
          copy_rounded(ops, state(kParamSlot, {part.id, box.offset, box.count.elements()}), host.data());
          progress();
        }
  refresh_weights(ops);
}

template <class Use>
void ParamStore::set_weights(Ops& ops, const IndexRange& whole, const Use& use) {
  const Tensor home = masters().at(whole), weights = weights_.at(whole);
  if (home.residence == Residence::device) return use(whole, home, weights);
  constexpr int64_t kRounded = 8;  // stochastic rounding begins at multiples of this
  const int64_t piece = std::min({options_.subgroup_elements / kRounded * kRounded, kPieceElements, whole.count});
  const auto allocate = [&](const Tensor& of, MemoryClass what) {
    return of.residence == Residence::host ? arena_->alloc(of.dtype, {std::max<int64_t>(piece, 1)}, what)
                                           : ArenaTensor();
  };
  const ArenaTensor buffer = allocate(home, MemoryClass::optimizer), out = allocate(weights, MemoryClass::parameters);
  for (int64_t at = 0; at < whole.count; at += piece) {
    const int64_t count = std::min(piece, whole.count - at);
    const Tensor on_device = buffer->slice(0, count), part = weights.slice(at, count);
    ops.copy_in({on_device, home.slice(at, count).data});
    use(IndexRange{whole.first + at, count}, on_device, out ? out->slice(0, count) : part);
    if (out) ops.copy_out({part.data, out->slice(0, count)});
  }
}

void ParamStore::round_weights(Ops& ops, uint64_t seed, int64_t step) {
  for (ParamId id = 0; id < static_cast<ParamId>(table_->size()); ++id) {
    const Param& p = (*table_)[id];
    if (p.unit < 0) continue;
    set_weights(ops, place_of(*table_, {id, 0, p.local_elements()}),
                [&](const IndexRange& s, const Tensor& master, const Tensor& weights) {
                  ops.round_stochastically(rounding(seed, step, {id, s.first - p.offset, s.count}, weights, master));
                });
  }
  ops.weights_changed();
}

calls::RoundStochastically ParamStore::rounding(uint64_t seed, int64_t step, const ParamPart& part,
                                                const Tensor& weights, const Tensor& master) const {
  return {weights, master, {seed, Philox::name_id((*table_)[part.id].name), static_cast<uint32_t>(step), part.first}};
}

void ParamStore::refresh_weights(Ops& ops) {
  if (master_.memory)
    for (const ParamUnit& u : table_->units())
      set_weights(ops, master_.layout.sharded() ? own(u) : IndexRange{u.offset, u.elements},
                  [&](const IndexRange&, const Tensor& master, const Tensor& weights) {
                    ops.cast({weights, master});
                  });
  ops.weights_changed();
}

}  // namespace fp
