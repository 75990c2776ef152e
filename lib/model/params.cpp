#include "model/params.h"

#include <algorithm>
#include <utility>

#include "base/parallel.h"

namespace fp {
namespace {

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

ParamId ParamTable::add(const std::string& name, const Shape& shape, const Partition& partition, const InitRule& init,
                        int layer, bool joined) {
  FP_CHECK(find(name) < 0, "parameter {} declared twice", name);
  const auto id = static_cast<ParamId>(params_.size());
  Param p{name, shape, local_shape(shape, partition, tp_, tp_index_, name), partition, init};
  p.decay = shape.rank() >= 2;
  p.matrix = layer >= 0 && shape.rank() == 2;
  p.layer = layer;
  for (const Piece& piece : partition.pieces)
    if (piece.copies) copy_sharers_ = ranks_of_group(piece.units, tp_, tp_index_);
  const bool embedding = layer < 0 && (places_.empty() || places_.back() == Place::embedding);
  const Place place = layer >= 0 ? Place::layer : embedding ? Place::embedding : Place::head;
  if (params_.empty() || params_.back().layer != layer) begin_unit();
  params_.push_back(std::move(p));
  by_name_.emplace(name, id);
  places_.push_back(place);
  if (holds(place, layer)) lay_out(id, joined);
  return id;
}

bool ParamTable::has_slot(ParamId id, int slot) const {
  const StateSlot::Scope scope = slots_[static_cast<size_t>(slot)].scope;
  return scope == StateSlot::Scope::all || (scope == StateSlot::Scope::matrices) == (*this)[id].matrix;
}

std::vector<int> ParamTable::slots_of(ParamId id) const {
  std::vector<int> list;
  for (int slot = 0; slot < slot_count(); ++slot)
    if (has_slot(id, slot)) list.push_back(slot);
  return list;
}

int ParamTable::updated_slots() const {
  return static_cast<int>(
      std::ranges::find_if(slots_, [](const StateSlot& s) { return s.is_weights || s.errors_of >= 0; }) -
      slots_.begin());
}

int ParamTable::weights_slot() const {
  const auto found = std::ranges::find_if(slots_, &StateSlot::is_weights);
  return found == slots_.end() ? -1 : static_cast<int>(found - slots_.begin());
}

int ParamTable::error_slot() const {
  const auto found = std::ranges::find(slots_, shard_ / summing_, &StateSlot::errors_of);
  return found == slots_.end() ? -1 : static_cast<int>(found - slots_.begin());
}

bool ParamTable::slots_differ() const {
  return std::ranges::any_of(slots_, [](const StateSlot& s) { return s.scope != StateSlot::Scope::all; });
}

bool ParamTable::holds(Place place, int layer) const {
  return place == Place::embedding ? held_.embedding : place == Place::head ? held_.head : held_.layer(layer);
}

void ParamTable::lay_out(ParamId id, bool joined) {
  Param& p = params_[static_cast<size_t>(id)];
  if (std::exchange(new_unit_, false)) {
    FP_CHECK(!joined, "{} begins a unit and cannot be joined", p.name);
    units_.push_back({id, id, flat_, 0});
    cursor_ = flat_;
  }
  if (!joined) cursor_ = round_up(cursor_, align_);
  p.unit = static_cast<int>(units_.size()) - 1;
  p.offset = cursor_;
  cursor_ += p.local_elements();
  ParamUnit& unit = units_.back();
  unit.last = id;
  unit.elements = round_up(cursor_ - unit.offset, shards_ * align_);
  flat_ = unit.offset + unit.elements;
}

void ParamTable::share_with_head(ParamId id) {
  FP_CHECK(places_[static_cast<size_t>(id)] == Place::embedding, "{} is no parameter of the embedding",
           (*this)[id].name);
  shared_ = id;
  if (held_.embedding || !held_.head) return;
  begin_unit();
  lay_out(id, false);
  params_[static_cast<size_t>(id)].copy = true;
}

std::vector<int> ParamTable::units_at(Place place) const {
  std::vector<int> list;
  for (size_t id = 0; id < params_.size(); ++id)
    if (const int unit = params_[id].unit; places_[id] == place && unit >= 0 && !params_[id].copy)
      if (list.empty() || list.back() != unit) list.push_back(unit);
  return list;
}

std::vector<int> ParamTable::head_units() const {
  std::vector<int> list = units_at(Place::head);
  if (shared_ >= 0 && held_.head) list.insert(list.begin(), unit_of(shared_));
  return list;
}

int ParamTable::layer_unit(int64_t layer) const {
  const auto it = std::find_if(params_.begin(), params_.end(), [&](const Param& p) { return p.layer == layer; });
  FP_CHECK(it != params_.end() && it->unit >= 0, "layer {} is on another rank", layer);
  return it->unit;
}

bool ParamTable::is_tied_unit(int unit) const {
  return shared_ >= 0 && held_.embedding && held_.head && unit_of(shared_) == unit;
}

int ParamTable::divided_unit() const { return shared_ >= 0 && held_.embedding != held_.head ? unit_of(shared_) : -1; }

ParamId ParamTable::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

int64_t ParamTable::logical_parameters() const {
  int64_t n = 0;
  for (const Param& p : params_) n += p.shape.elements();
  return n;
}

int ParamTable::unit_of(ParamId id) const {
  FP_CHECK(id >= 0 && static_cast<size_t>(id) < params_.size(), "no parameter {}", id);
  const Param& p = (*this)[id];
  FP_CHECK(p.unit >= 0, "{} is on another rank", p.name);
  return p.unit;
}

IndexRange ParamTable::shard_of(const ParamUnit& u, int shard) const {
  const int64_t each = u.elements / shards_;
  return {u.offset + shard * each, each};
}

// The second hop of a sum connects ranks with the same index within their nodes, so that the rank with index i sums the
// shards i, i + summing_, ... of the unit.
std::vector<IndexRange> ParamTable::ranges_of(const ParamUnit& u, int shard, int slot) const {
  const int errors_of = slots_[static_cast<size_t>(slot)].errors_of;
  if (errors_of < 0) return {shard_of(u, shard)};
  std::vector<IndexRange> list;
  if (shard / summing_ == errors_of)
    for (int s = shard % summing_; s < shards_; s += summing_) list.push_back(shard_of(u, s));
  return list;
}

std::vector<ParamPart> ParamTable::parts_in(const ParamUnit& u, const std::vector<IndexRange>& ranges) const {
  std::vector<ParamPart> list;
  for (ParamId id = u.first; id <= u.last; ++id)
    for (const IndexRange& range : ranges) {
      const Param& p = (*this)[id];
      const IndexRange s = common(range, {p.offset, p.local_elements()});
      if (s.count > 0) list.push_back({id, s.first - p.offset, s.count});
    }
  return list;
}

std::vector<ParamPart> ParamTable::parts(const ParamUnit& u, bool whole) const {
  return parts_in(u, {whole ? IndexRange{u.offset, u.elements} : shard_of(u, shard_)});
}

std::vector<ParamPart> ParamTable::parts_of_slot(const ParamUnit& u, int slot) const {
  return parts_in(u, ranges_of(u, shard_, slot));
}

std::vector<IndexRange> ParamTable::gaps(const ParamUnit& u) const {
  std::vector<IndexRange> list;
  int64_t end = u.offset;
  for (ParamId id = u.first; id <= u.last; ++id) {
    if ((*this)[id].offset > end) list.push_back({end, (*this)[id].offset - end});
    end = (*this)[id].offset + (*this)[id].local_elements();
  }
  if (u.offset + u.elements > end) list.push_back({end, u.offset + u.elements - end});
  return list;
}

std::vector<IndexRange> ParamTable::gaps_and_padding(const ParamUnit& u) const {
  std::vector<IndexRange> list = gaps(u);
  for (ParamId id = u.first; id <= u.last; ++id) {
    const Param& p = (*this)[id];
    int64_t end = p.offset;
    for (const Fragment& f : fragments_of({id, 0, p.local_elements()})) {
      if (p.offset + f.offset > end) list.push_back({end, p.offset + f.offset - end});
      end = p.offset + f.offset + f.count.elements();
    }
    if (p.offset + p.local_elements() > end) list.push_back({end, p.offset + p.local_elements() - end});
  }
  return list;
}

std::vector<Slab> ParamTable::slabs_of(ParamId id) const {
  return slabs((*this)[id].shape, (*this)[id].partition, tp_, tp_index_);
}

IndexRange ParamTable::share_of(ParamId id) const {
  const Param& p = (*this)[id];
  FP_CHECK(p.partition.dim >= 0 && p.partition.pieces.size() == 1, "{} is not cut in one piece", p.name);
  return fp::share_of(p.partition.pieces.front(), tp_, tp_index_);
}

std::vector<Fragment> ParamTable::fragments_of(const ParamPart& part) const {
  const Param& p = (*this)[part.id];
  return fragments(p.shape, p.local, p.partition.dim, slabs_of(part.id), part.first, part.count);
}

std::vector<Fragment> ParamTable::owned(ParamId id, int shard, int slot) const {
  const Param& p = (*this)[id];
  if (p.unit < 0 || p.copy) return {};
  std::vector<Slab> mine;
  for (const Slab& s : slabs_of(id))
    if (s.first) mine.push_back(s);
  std::vector<Fragment> list;
  for (const IndexRange& kept : ranges_of(units_[static_cast<size_t>(unit_of(id))], shard, slot)) {
    const IndexRange range = common(kept, {p.offset, p.local_elements()});
    const std::vector<Fragment> of_range =
        fragments(p.shape, p.local, p.partition.dim, mine, range.first - p.offset, range.count);
    list.insert(list.end(), of_range.begin(), of_range.end());
  }
  return list;
}

std::vector<IndexRange> ParamTable::copied(const ParamUnit& u) const {
  std::vector<IndexRange> list;
  for (ParamId id = u.first; id <= u.last; ++id) {
    const Param& p = (*this)[id];
    if (p.partition.dim != 0) continue;
    const int64_t width = p.local.elements() / std::max<int64_t>(p.local[0], 1);
    for (const Slab& s : slabs_of(id))
      if (s.sharers > 1) list.push_back({p.offset + s.local_start * width, s.count[0] * width});
  }
  return list;
}

int64_t ParamTable::separating_block(int64_t block) const {
  for (const ParamUnit& u : units_) {
    const std::vector<IndexRange> copies = copied(u), unused = gaps(u);
    const auto begins = [](const std::vector<IndexRange>& list, int64_t at) {
      return std::ranges::any_of(list, [&](const IndexRange& s) { return s.first == at; });
    };
    const auto ends = [](const std::vector<IndexRange>& list, int64_t at) {
      return std::ranges::any_of(list, [&](const IndexRange& s) { return s.first + s.count == at; });
    };
    for (const IndexRange& s : copies) {
      const int64_t end = s.first + s.count;
      if (!ends(copies, s.first)) block = std::gcd(block, s.first - u.offset);
      if (!begins(copies, end) && !begins(unused, end)) block = std::gcd(block, end - u.offset);
    }
  }
  return block;
}

std::vector<IndexRange> ParamTable::partial(const ParamUnit& u, bool megatron_sp) const {
  std::vector<IndexRange> list;
  for (ParamId id = u.first; id <= u.last; ++id)
    if (const GradientSum sum = (*this)[id].sum; sum == GradientSum::heads || (sum == GradientSum::rows && megatron_sp))
      list.push_back({(*this)[id].offset, (*this)[id].local_elements()});
  return list;
}

void initial_values(const Param& p, uint64_t seed, int64_t first, std::span<float> out) {
  if (p.init.kind != InitRule::Kind::normal) {
    std::fill(out.begin(), out.end(), p.init.kind == InitRule::Kind::ones ? 1.0f : 0.0f);
    return;
  }
  const auto key = Philox::key(seed, Purpose::init);
  const uint64_t name = Philox::name_id(p.name);
  const auto std = static_cast<float>(p.init.std);
  parallel_for(static_cast<int64_t>(out.size()), 1 << 16, [&](int64_t begin, int64_t end) {
    // Four values come from one Philox block; ranges may start and end inside one.
    for (int64_t i = first + begin; i < first + end;) {
      const uint64_t block = static_cast<uint64_t>(i / 4);
      const auto w = Philox::block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                    static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32)},
                                   key);
      const auto a = Philox::normal(w[0], w[1]), b = Philox::normal(w[2], w[3]);
      const float values[4] = {a[0], a[1], b[0], b[1]};
      for (; i < first + end && static_cast<uint64_t>(i / 4) == block; ++i)
        out[static_cast<size_t>(i - first)] = std * values[i % 4];
    }
  });
}

}  // namespace fp
