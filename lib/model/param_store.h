// ParamStore: a rank's parameters, gradients and optimizer state as flat buffers in table order.
//
// Under ZeRO some buffers hold only this rank's shard of each unit, one after the other: the optimizer's states and
// fp32 master weights from ZeRO 1, gradients from ZeRO 2, weights under ZeRO 3. In fp32 compute the weights are the
// master weights. A state that only some parameters have takes memory for these alone. Gradients are kept in f32 or
// bf16; those not kept whole in f32 are computed, a unit at a time, in working memory that the caller attaches.
// Weights and gradients may be kept in host memory, sharded from ZeRO 1 on; then compute only uses attached memory.
#pragma once

#include <vector>

#include "model/flat_layout.h"
#include "model/params.h"
#include "tensor/arena.h"

namespace fp {

struct StoreOptions {
  DType compute = DType::bf16;
  bool training = true;          // false: weights only
  DType gradients = DType::f32;  // type in which gradients are kept between micro-batches and sent between ranks
  int zero_stage = 0;
  bool optimizer = true;  // with training; false: gradients, but neither master weights nor an optimizer's states
  int64_t subgroup_elements = int64_t{1} << 22;  // of a slot in host memory, updated at a time
  bool offload_weights = false;                  // with training: keep weights and gradients in host memory
};

// Elements of tensors in host memory that pass through a buffer on the device at a time, outside of steps.
inline constexpr int64_t kPieceElements = 1 << 20;

class ParamStore {
 public:
  // `host`: the arena of what is in host memory.
  ParamStore(const ParamTable&, const StoreOptions&, Arena&, Arena* host = nullptr);

  const ParamTable& table() const { return *table_; }
  const StoreOptions& options() const { return options_; }
  Arena& host_arena() const;  // of the slots in host memory
  DType compute() const { return options_.compute; }

  Tensor weight(ParamId id) const { return weight(id, id); }
  Tensor grad(ParamId id) const { return grad(id, id); }
  // Return joined parameters first..last as one tensor, concatenated along the first dimension.
  Tensor weight(ParamId first, ParamId last) const;
  Tensor grad(ParamId first, ParamId last) const;

  // Whether only this rank's shard of the buffer is kept.
  bool weights_sharded() const { return weights_.layout.sharded(); }
  bool state_sharded() const { return state_sharded_; }
  bool gradients_sharded() const { return grads_.layout.sharded(); }
  // Whether weights and gradients are kept in host memory.
  bool weights_on_host() const { return options_.training && options_.offload_weights; }
  // Whether compute uses attached weights.
  bool uses_attached_weights() const { return weights_sharded() || weights_on_host(); }
  // Whether gradients are computed in attached memory.
  bool uses_attached_gradients() const {
    return gradients_sharded() || options_.gradients != DType::f32 || weights_on_host();
  }

  // The flat buffers as they are, whole or sharded. Without training there are weights only.
  const Tensor& weights() const { return weights_.memory; }
  const Tensor& master() const { return masters().memory; }
  const Tensor& grads() const { return grads_.memory; }
  // The flat buffer of a slot, for example of the optimizer's states from slot 1 on; empty if this store has none.
  const Tensor& slot(int slot) const { return flat(slot).memory; }
  // Returns one parameter's part of a whole flat buffer.
  Tensor part(const Tensor& flat, ParamId id) const;

  // Weights and gradients of a unit: all of them (if kept whole), or this rank's shard. held_*(): whichever is kept.
  Tensor unit_weights(const ParamUnit& u) const { return weights_.at({u.offset, u.elements}); }
  Tensor shard_of_weights(const ParamUnit& u) const { return weights_.at(own(u)); }
  Tensor held_weights(const ParamUnit& u) const { return weights_sharded() ? shard_of_weights(u) : unit_weights(u); }
  Tensor unit_gradients(const ParamUnit& u) const { return grads_.at({u.offset, u.elements}); }
  Tensor shard_of_gradients(const ParamUnit& u) const { return grads_.at(own(u)); }
  Tensor held_gradients(const ParamUnit& u) const {
    return gradients_sharded() ? shard_of_gradients(u) : unit_gradients(u);
  }
  // Returns the part of a whole unit in other memory that this rank holds of its weights.
  Tensor own_part(const ParamUnit& u, const Tensor& whole) const {
    const IndexRange s = weights_sharded() ? own(u) : IndexRange{u.offset, u.elements};
    return whole.slice(s.first - u.offset, s.count);
  }
  // Returns the flat range of a unit whose state this rank keeps: the whole unit, or this rank's shard.
  IndexRange kept_range(const ParamUnit& u) const {
    return state_sharded() ? own(u) : IndexRange{u.offset, u.elements};
  }
  // Returns the tensors that an update of a flat range needs, in the memory where they live. The weights are in the
  // compute type, or empty in fp32 compute.
  UpdateTensors update_tensors(const IndexRange& flat) const;
  // Returns where a part of a parameter lies in the tensors of a flat range.
  ParamRange range_of(const ParamPart&, const IndexRange& flat) const;
  // Whether this rank saves and loads only its shard of the slot.
  bool sharded(int slot) const {
    if (slot == table_->weights_slot()) return state_sharded_;
    return table_->is_error(slot) || flat(slot).layout.sharded();
  }
  // Returns the flat ranges of a unit that it saves and loads of the slot.
  std::vector<IndexRange> ranges(int slot, const ParamUnit& u) const {
    return slot == table_->weights_slot() ? std::vector{kept_range(u)} : flat(slot).layout.ranges(u);
  }
  // Returns the errors of the sums of a unit's gradients that this rank keeps, bf16 [shards, elements of a shard];
  // empty if none are kept.
  Tensor errors(const ParamUnit&) const;
  // Zeroes all of them.
  void clear_errors(Ops&);
  bool has(int slot) const { return static_cast<bool>(flat(slot).memory); }
  // Return a part of a parameter's state, or a flat range of the table's buffers, in the slot's type (a store without
  // training has only the weights, in the compute type). This rank must keep it.
  Tensor state(int slot, const ParamPart&) const;
  Tensor state(int slot, const IndexRange& s) const { return flat(slot).at(s); }
  // The same for the weights in the compute type.
  Tensor kept_weights(const ParamPart&) const;
  // Returns the parts of a unit whose state this rank keeps and updates.
  std::vector<ParamPart> kept(const ParamUnit& u) const { return table_->parts(u, !state_sharded()); }

  // Attaches memory for a unit's weights (compute type) or gradients (f32), of the unit's number of elements; an empty
  // tensor detaches it. The memory must outlive its use.
  void attach_weights(int unit, const Tensor& memory) { attached_weights_[static_cast<size_t>(unit)] = memory; }
  void attach_gradients(int unit, const Tensor& memory);
  Tensor attached_gradients(int unit) const { return attached_gradients_[static_cast<size_t>(unit)]; }

  // Returns `set` for the first gradient that a parameter gets in a step or in newly attached memory, then `add`; saves
  // zeroing and re-reading.
  Write grad_write(ParamId id) { return grad_write(id, id); }
  // The same for joined parameters first..last.
  Write grad_write(ParamId first, ParamId last);
  void begin_step();  // forgets which gradients were written
  // Zeroes those gradients of a unit that were not written (a parameter may be unused, or all targets ignored), and in
  // attached memory the gaps between them.
  void finish_gradients(Ops&, int unit);

  // Sets initial weights and zeroes the optimizer's states. With sharded master weights, only this rank's shard of the
  // compute weights is set; the caller gathers the rest.
  void initialize(Ops&, uint64_t seed);
  // Sets the compute weights from the master weights, after a load or an update; only this rank's shard if the master
  // weights are sharded.
  void refresh_weights(Ops&);
  // The same with stochastic rounding, with the random numbers of the update of this step (from 1).
  void round_weights(Ops&, uint64_t seed, int64_t step);
  // Returns the op that rounds the master weights of a part of a parameter stochastically to its weights.
  calls::RoundStochastically rounding(uint64_t seed, int64_t step, const ParamPart&, const Tensor& weights,
                                      const Tensor& master) const;

 private:
  struct Flat {
    ArenaTensor memory;
    FlatLayout layout;
    Tensor at(const IndexRange&) const;
  };
  const Flat& masters() const { return master_.memory ? master_ : weights_; }
  const Flat& flat(int slot) const;
  // Calls `use` with ranges of the table's buffers that make up `whole`, and their master weights and weights in device
  // memory, of which it sets the latter.
  template <class Use>
  void set_weights(Ops&, const IndexRange& whole, const Use& use);
  IndexRange own(const ParamUnit& u) const { return table_->shard_of(u, table_->shard()); }
  Tensor view(const Tensor& unit_memory, const ParamUnit&, ParamId first, ParamId last) const;

  const ParamTable* table_;
  StoreOptions options_;
  Arena *arena_, *host_;
  Flat weights_, master_, grads_;
  std::vector<Flat> states_;  // slots 1, 2, ...
  Flat errors_, none_;        // the error slot of this rank, and the slots of other ranks, which are empty here
  bool state_sharded_ = false;
  std::vector<Tensor> attached_weights_, attached_gradients_;  // by unit
  std::vector<bool> written_;
};

}  // namespace fp
