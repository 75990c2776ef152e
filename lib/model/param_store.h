// A rank's parameters, gradients and optimizer state: flat buffers in table order.
//
// Under ZeRO some of them hold this rank's shard of each unit only, one after the other: moments and fp32 masters from
// stage 1 on, gradients from 2, weights at 3. In fp32 compute the weights are the masters. Gradients are kept in f32 or
// bf16; what is not kept whole in f32 is computed, a unit at a time, in working memory that somebody lends the store.
#pragma once

#include <array>
#include <vector>

#include "model/params.h"
#include "tensor/arena.h"

namespace fp {

// What a training run is about: of each parameter, in fp32, saved in checkpoints.
enum class StateKind : uint8_t { param, exp_avg, exp_avg_sq };
constexpr std::array<StateKind, 3> kStateKinds = {StateKind::param, StateKind::exp_avg, StateKind::exp_avg_sq};

struct StoreOptions {
  DType compute = DType::bf16;
  bool training = true;          // false: weights only
  DType gradients = DType::f32;  // as kept between micro-batches and sent between ranks
  int zero_stage = 0;
};

// Flat ranges that begin at element `first` of the table's flat buffers; weights as computed with, or empty in fp32.
struct UnitState {
  int64_t first = 0;
  Tensor param, exp_avg, exp_avg_sq, gradient, weights;
};

class ParamStore {
 public:
  ParamStore(const ParamTable&, const StoreOptions&, Arena&);

  const ParamTable& table() const { return *table_; }
  const StoreOptions& options() const { return options_; }
  DType compute() const { return options_.compute; }

  Tensor weight(ParamId id) const { return weight(id, id); }
  Tensor grad(ParamId id) const { return grad(id, id); }
  // Parameters first..last, joined, as one tensor along the first dimension.
  Tensor weight(ParamId first, ParamId last) const;
  Tensor grad(ParamId first, ParamId last) const;

  // Whether only this rank's shard is kept.
  bool weights_sharded() const { return weights_.sharded; }
  bool state_sharded() const { return m_.sharded; }
  bool gradients_sharded() const { return grads_.sharded; }
  // Whether gradients are computed in borrowed memory.
  bool borrows_gradients() const { return gradients_sharded() || options_.gradients != DType::f32; }

  // The flat buffers as they are, whole or sharded. Without training there are weights only.
  const Tensor& weights() const { return weights_.memory; }
  const Tensor& master() const { return masters().memory; }
  const Tensor& grads() const { return grads_.memory; }
  const Tensor& moment1() const { return m_.memory; }
  const Tensor& moment2() const { return v_.memory; }
  // One parameter's part of a whole flat buffer.
  Tensor part(const Tensor& flat, ParamId id) const;

  // Of a unit: its weights (where kept whole), this rank's shard of them, its kept gradients (all or the shard).
  Tensor unit_weights(const ParamUnit& u) const { return weights_.at(*table_, {u.offset, u.elements}); }
  Tensor shard_of_weights(const ParamUnit& u) const { return weights_.at(*table_, own(u)); }
  Tensor unit_gradients(const ParamUnit& u) const { return grads_.at(*table_, {u.offset, u.elements}); }
  Tensor shard_of_gradients(const ParamUnit& u) const { return grads_.at(*table_, own(u)); }
  // All that an update of the unit needs: of all of it, or of this rank's shard.
  UnitState unit_state(const ParamUnit&) const;
  // Part of a parameter's state, f32 (of weights alone: the weights); it must be kept here.
  bool sharded(StateKind kind) const { return flat(kind).sharded; }
  bool has(StateKind kind) const { return static_cast<bool>(flat(kind).memory); }
  Tensor state(StateKind, const ParamPart&) const;
  Tensor state(StateKind kind, const Segment& s) const { return flat(kind).at(*table_, s); }  // of a rank's numbering
  Tensor kept_weights(const ParamPart&) const;                                                // in the compute type
  // The parts of a unit that this rank keeps the state of, and updates.
  std::vector<ParamPart> kept(const ParamUnit& u) const { return table_->parts(u, !state_sharded()); }

  // Lends a unit the memory of its weights or gradients (compute type or f32, the unit's elements); empty: takes it
  // back.
  void lend_weights(int unit, const Tensor& memory) { lent_weights_[static_cast<size_t>(unit)] = memory; }
  void lend_gradients(int unit, const Tensor& memory);
  Tensor lent_gradients(int unit) const { return lent_gradients_[static_cast<size_t>(unit)]; }

  // set for the first gradient a parameter gets in a step, or in lent memory, add afterwards: saves zeroing and
  // re-reading.
  Write grad_write(ParamId id);
  void begin_step();  // forgets which gradients were written
  // Zeroes the gradients of a unit that nothing has written (a parameter can be unused, or all of its targets ignored),
  // and in lent memory the gaps between them.
  void finish_gradients(Ops&, int unit);

  // Weights and zero moments. What other shards hold of the compute weights is left to who gathers them.
  void initialize(Ops&, uint64_t seed);
  // Kept weights = master, after a load or an update: of this rank's shard where masters are sharded.
  void refresh_weights(Ops&);
  // The same by stochastic rounding, as the update of this step (from 1) leaves them.
  void round_weights(Ops&, uint64_t seed, int64_t step);

 private:
  struct Flat {
    ArenaTensor memory;
    bool sharded = false;
    Tensor at(const ParamTable&, const Segment&) const;
  };
  const Flat& masters() const { return master_.memory ? master_ : weights_; }
  const Flat& flat(StateKind) const;
  Segment own(const ParamUnit& u) const { return table_->shard_of(u, table_->shard()); }
  Tensor view(const Tensor& unit_memory, const ParamUnit&, ParamId first, ParamId last) const;

  const ParamTable* table_;
  StoreOptions options_;
  Flat weights_, master_, grads_, m_, v_;
  std::vector<Tensor> lent_weights_, lent_gradients_;  // by unit
  std::vector<bool> written_;
};

}  // namespace fp
