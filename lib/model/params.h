// ParamTable: the single source of truth about parameters: name, logical shape, init rule, weight-decay flag, layer and
// partition of each, and the states that training keeps for them. Initialisation, tensor parallelism, checkpoints and
// import/export all read this table; nothing else knows how a tensor is cut.
//
// Names and logical shapes are those of the published checkpoints; weights of linear layers are (out, in).
#pragma once

#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/ops.h"
#include "optim/optimizer.h"
#include "sharding/partition.h"
#include "sharding/stages.h"

namespace fp {

struct InitRule {
  enum class Kind : uint8_t { normal, zeros, ones } kind = Kind::normal;
  double std = 0.02;
};

using ParamId = int;

// Whether the gradient of a parameter that all tensor-parallel ranks hold must be summed over these ranks.
enum class GradientSum : uint8_t {
  none,   // never: each rank computes the whole gradient
  rows,   // only under Megatron sequence parallelism, where each rank computes the gradient of its rows
  heads,  // always: each rank computes the gradient of its attention heads
};

struct Param {
  std::string name;
  Shape shape;  // logical: no padding, no cut
  Shape local;  // what this rank holds, padding included
  Partition partition;
  InitRule init;
  bool decay = false;   // weight decay applies
  bool matrix = false;  // a matrix of a layer
  GradientSum sum = GradientSum::none;
  int layer = -1;      // -1: outside the layers
  int unit = -1;       // of this rank; -1: only other pipeline ranks hold it
  bool copy = false;   // a copy: another pipeline rank holds it too and owns it
  int64_t offset = 0;  // elements from the start of the rank's flat buffers
  int64_t local_elements() const { return local.elements(); }
};

// Parameters that are used together: the token embedding, the rest of the embedding, a layer, or the LM head. Gradients
// are reduced, and ZeRO's weights gathered, a unit at a time. Each unit is split evenly into shards, so its length is a
// multiple of their number.
struct ParamUnit {
  ParamId first = 0, last = 0;  // first..last
  int64_t offset = 0, elements = 0;
};

// Elements [first, first + count) of the local tensor of a parameter.
struct ParamPart {
  ParamId id = 0;
  int64_t first = 0, count = 0;
};

class ParamTable {
 public:
  // `shards`: number of ranks that hold the same tensor-parallel parts, among which ZeRO shards are split; this one is
  // `shard`. `held`: the parts of the model that this rank holds. `block`: all shards, and all parameters that are not
  // joined to another, begin at a multiple of this, so that no block of consecutive elements has parts of two of them.
  // The table lists all parameters of the model.
  explicit ParamTable(int tp = 1, int tp_index = 0, int shards = 1, int shard = 0, HeldParts held = {},
                      int64_t block = 1)
      : tp_(tp),
        tp_index_(tp_index),
        shards_(shards),
        shard_(shard),
        held_(std::move(held)),
        align_(std::lcm(kAlign, block)) {}

  // Appends a parameter and returns its id; weight decay follows from the shape (two or more dimensions). `joined`: its
  // memory follows that of the previous parameter without a gap, so that both can be used as one matrix.
  ParamId add(const std::string& name, const Shape& shape, const Partition&, const InitRule&, int layer = -1,
              bool joined = false);
  void set_sum(ParamId id, GradientSum sum) { params_[static_cast<size_t>(id)].sum = sum; }
  // The next parameter begins a unit.
  void begin_unit() { new_unit_ = true; }
  // Shares a parameter of the embedding with the LM head (tied embeddings): a rank with the LM head alone holds a copy,
  // in a separate unit.
  void share_with_head(ParamId);
  // Sets the slots of the table; slot 0 is the parameter itself, which is the only slot initially.
  // `summing`: the number of consecutive data ranks that together keep one set of errors of quantized sums
  // (StateSlot::errors_of), that of a node or 1; each rank keeps the errors of the shards that it sums.
  void set_slots(std::vector<StateSlot> slots, int summing = 1) {
    slots_ = std::move(slots);
    summing_ = summing;
  }

  const std::vector<StateSlot>& slots() const { return slots_; }
  const std::string& slot_name(int slot) const { return slots_[static_cast<size_t>(slot)].name; }
  int slot_count() const { return static_cast<int>(slots_.size()); }
  // Returns the number of the optimizer's slots, which come first; all others follow them.
  int updated_slots() const;
  // Return the index of the slot that is the weights (StateSlot::is_weights), and of the one of the errors that this
  // rank keeps (StateSlot::errors_of); -1: there is none.
  int weights_slot() const;
  int error_slot() const;
  bool is_error(int slot) const { return slots_[static_cast<size_t>(slot)].errors_of >= 0; }
  // Return whether a parameter has a slot, and its slots, ascending.
  bool has_slot(ParamId, int slot) const;
  std::vector<int> slots_of(ParamId) const;
  // Whether matrices have other slots than the rest.
  bool slots_differ() const;

  size_t size() const { return params_.size(); }
  const Param& operator[](ParamId id) const { return params_[static_cast<size_t>(id)]; }
  auto begin() const { return params_.begin(); }
  auto end() const { return params_.end(); }
  // Returns the id of a parameter; -1: there is none of this name.
  ParamId find(std::string_view name) const;

  int64_t flat_elements() const { return flat_; }  // length of each flat buffer, gaps included
  int64_t logical_parameters() const;              // trainable parameters of the whole model
  int tp() const { return tp_; }
  int tp_index() const { return tp_index_; }
  int shards() const { return shards_; }
  int shard() const { return shard_; }

  const std::vector<ParamUnit>& units() const { return units_; }
  const HeldParts& held() const { return held_; }
  // Whether this rank holds the whole model by itself.
  bool holds_everything() const { return tp_ == 1 && shards_ == 1 && held_.everything(); }
  int unit_of(ParamId) const;  // this rank must hold the parameter
  // The units of the embedding, of the LM head (a shared embedding first), and of a layer.
  std::vector<int> embedding_units() const { return units_at(Place::embedding); }
  std::vector<int> head_units() const;
  int layer_unit(int64_t layer) const;
  // Whether embedding and LM head share the unit, and this rank has both.
  bool is_tied_unit(int unit) const;
  // The unit that they share, if this rank has only one of them; -1: none.
  int divided_unit() const;
  // Returns the range of shard `shard` of a unit in the flat buffers.
  IndexRange shard_of(const ParamUnit&, int shard) const;
  // Returns the flat ranges of a sharded slot that the rank with this shard keeps: its own shard or, of errors, those
  // of all shards that it sums.
  std::vector<IndexRange> ranges_of(const ParamUnit&, int shard, int slot) const;
  // Returns the parts of a unit's parameters that lie in this rank's shard, or in the whole unit.
  std::vector<ParamPart> parts(const ParamUnit&, bool whole) const;
  // Returns the parts of a unit's parameters that lie in the ranges that this rank keeps of a sharded slot.
  std::vector<ParamPart> parts_of_slot(const ParamUnit&, int slot) const;
  std::vector<IndexRange> gaps(const ParamUnit&) const;  // flat elements that belong to no parameter
  // The same and the padding of parameters, which no checkpoint has.
  std::vector<IndexRange> gaps_and_padding(const ParamUnit&) const;

  std::vector<Slab> slabs_of(ParamId) const;  // the boxes of the logical tensor that this rank holds
  // This rank's range of a parameter that is cut in one piece, along the cut dimension, in the padded extent.
  IndexRange share_of(ParamId) const;
  std::vector<Fragment> fragments_of(const ParamPart&) const;
  // Returns the fragments of a parameter that this rank owns: its shard without copies that a lower tensor-parallel
  // rank also holds. Over all ranks, these fragments cover the logical tensor exactly once.
  std::vector<Fragment> owned(ParamId id) const { return owned(id, shard_, kParamSlot); }
  // Returns the fragments of a slot that the rank with this shard owns.
  std::vector<Fragment> owned(ParamId, int shard, int slot) const;

  // Flat ranges of a unit whose gradient must be summed over tensor-parallel ranks: copied() over those that hold
  // copies of kv heads; partial() over all, as GradientSum says, with or without Megatron sequence parallelism.
  std::vector<IndexRange> copied(const ParamUnit&) const;
  // Returns the largest divisor of `block` with which every block has either only elements that copied() returns, or
  // none of them.
  int64_t separating_block(int64_t block) const;
  std::vector<IndexRange> partial(const ParamUnit&, bool megatron_sp) const;
  // The tensor-parallel ranks that hold the same copies as this one.
  const std::vector<int>& copy_sharers() const { return copy_sharers_; }
  // Whether this rank is the one that adds a replicated bias to the sum of the ranks' products.
  bool adds_to_sum() const { return tp_index_ == 0; }

 private:
  static constexpr int64_t kAlign = 128;  // elements
  enum class Place : uint8_t { embedding, layer, head };
  bool holds(Place, int layer) const;
  void lay_out(ParamId, bool joined);  // appends to the flat buffers
  std::vector<int> units_at(Place) const;
  std::vector<StateSlot> slots_ = {{kParamState}};
  std::vector<Param> params_;
  std::map<std::string, ParamId, std::less<>> by_name_;
  std::vector<ParamUnit> units_;
  std::vector<Place> places_;  // of each parameter
  std::vector<ParamPart> parts_in(const ParamUnit&, const std::vector<IndexRange>&) const;
  int tp_, tp_index_, shards_, shard_, summing_ = 1;
  HeldParts held_;
  int64_t align_;  // elements
  ParamId shared_ = -1;
  bool new_unit_ = true;
  std::vector<int> copy_sharers_ = {tp_index_};
  int64_t flat_ = 0, cursor_ = 0;
};

// Computes the initial values of elements [first, first + out.size()) of the logical tensor, in row-major order: a pure
// function of (seed, name, index).
void initial_values(const Param&, uint64_t seed, int64_t first, std::span<float> out);

}  // namespace fp
