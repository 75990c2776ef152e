// ParamTable: the one source of truth about parameters. For each: its global name, logical shape, init rule,
// weight-decay flag, layer and partition. Initialisation, tensor parallelism, checkpoints and import/export all read
// this table; nothing else knows how a tensor is cut.
//
// Names and logical shapes are those of the published checkpoints; weights of linear maps are
// (out, in).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/ops.h"
#include "plan/partition.h"
#include "tensor/arena.h"

namespace fp {

struct InitRule {
  enum class Kind : uint8_t { normal, zeros, ones } kind = Kind::normal;
  double std = 0.02;
};

using ParamId = int;

struct Param {
  std::string name;
  Shape shape;  // logical: no padding, no cut
  Shape local;  // what this rank holds, padding included
  Partition partition;
  InitRule init;
  bool decay = false;  // weight decay applies
  int layer = -1;      // -1: outside the layers
  int64_t offset = 0;  // elements from the start of the rank's flat buffers
  int64_t local_elements() const { return local.elements(); }
};

class ParamTable {
 public:
  explicit ParamTable(int tp = 1, int tp_index = 0) : tp_(tp), tp_index_(tp_index) {}

  // Appends a parameter; decay follows from the shape (two or more dimensions). `joined`: its memory follows the
  // previous parameter's without a gap, so that both can be used as one matrix.
  ParamId add(const std::string& name, const Shape& shape, const Partition&, const InitRule&, int layer = -1,
              bool joined = false);

  size_t size() const { return params_.size(); }
  const Param& operator[](ParamId id) const { return params_[static_cast<size_t>(id)]; }
  auto begin() const { return params_.begin(); }
  auto end() const { return params_.end(); }
  // -1 when there is none.
  ParamId find(std::string_view name) const;

  int64_t flat_elements() const { return flat_; }  // length of each flat buffer, gaps included
  int64_t logical_parameters() const;              // trainable parameters of the whole model
  std::vector<Slab> slabs_of(ParamId id) const;    // what this rank holds of the logical tensor
  int tp() const { return tp_; }
  int tp_index() const { return tp_index_; }

 private:
  static constexpr int64_t kAlign = 128;  // elements
  std::vector<Param> params_;
  int64_t flat_ = 0;
  int tp_, tp_index_;
};

// The initial value of elements [first, first + count) of the logical tensor, in row-major order: a pure function of
// (seed, name, index).
void initial_values(const Param&, uint64_t seed, int64_t first, std::span<float> out);

// A rank's parameters, gradients and optimizer state: flat buffers in table order.
class ParamStore {
 public:
  enum class Content : uint8_t { weights_only, training };
  ParamStore(const ParamTable&, DType compute, Content, Arena&);

  const ParamTable& table() const { return *table_; }
  DType compute() const { return compute_; }

  Tensor weight(ParamId id) const { return view(weights_, id, id); }
  Tensor grad(ParamId id) const { return view(grads_, id, id); }
  // Parameters first..last, joined, as one tensor along the first dimension.
  Tensor weight(ParamId first, ParamId last) const { return view(weights_, first, last); }
  Tensor grad(ParamId first, ParamId last) const { return view(grads_, first, last); }

  // Flat buffers. In fp32 compute `weights` is `master` itself.
  const Tensor& weights() const { return weights_; }
  const Tensor& master() const { return compute_ == DType::f32 ? weights_ : master_; }
  const Tensor& grads() const { return grads_; }
  const Tensor& moment1() const { return m_; }
  const Tensor& moment2() const { return v_; }
  // One parameter's part of any of the flat buffers.
  Tensor part(const Tensor& flat, ParamId id) const { return view(flat, id, id); }

  // set for the first gradient a parameter gets in a step, add afterwards: saves zeroing and re-reading the buffer.
  Write grad_write(ParamId id);
  void begin_step();  // forgets which gradients were written
  // Zeroes the gradients that nothing has written in this step (a parameter can be unused, or all of its targets
  // ignored).
  void finish_gradients(Ops&);

  void initialize(Ops&, uint64_t seed);  // also zeroes the moments
  void refresh_weights(Ops&);            // weights = master, after a load
  // bf16 weights = master rounded stochastically, as the update of this step (from 1) leaves them.
  void round_weights(Ops&, uint64_t seed, int64_t step);

 private:
  Tensor view(const Tensor& flat, ParamId first, ParamId last) const;
  const ParamTable* table_;
  DType compute_;
  ArenaTensor weights_, master_, grads_, m_, v_;
  std::vector<bool> written_;
};

}  // namespace fp
