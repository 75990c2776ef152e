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
#include "plan/stages.h"

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
  bool row_cut =
      false;           // applied where Megatron sequence parallelism cuts the rows: each rank has part of the gradient
  int layer = -1;      // -1: outside the layers
  int unit = -1;       // of this rank's; -1: another rank of the pipeline holds it
  bool copy = false;   // another rank of the pipeline holds it too and answers for it
  int64_t offset = 0;  // elements from the start of the rank's flat buffers
  int64_t local_elements() const { return local.elements(); }
};

// Parameters that are used together: the token embedding, the rest of the stem, a layer, the head. Gradients are
// reduced and ZeRO's weights gathered a unit at a time. Each unit is dealt to the shards evenly, so its length is a
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
  // `shards`: the ranks that hold the same cuts, of which this one is `shard`; they divide what is not needed whole.
  // `held`: what of the model the rank holds; it knows of all parameters.
  explicit ParamTable(int tp = 1, int tp_index = 0, int shards = 1, int shard = 0, HeldParts held = {})
      : tp_(tp), tp_index_(tp_index), shards_(shards), shard_(shard), held_(std::move(held)) {}

  // Appends a parameter; decay follows from the shape (two or more dimensions). `joined`: its memory follows the
  // previous parameter's without a gap, so that both can be used as one matrix.
  ParamId add(const std::string& name, const Shape& shape, const Partition&, const InitRule&, int layer = -1,
              bool joined = false);
  void mark_row_cut(ParamId id) { params_[static_cast<size_t>(id)].row_cut = true; }
  // The next parameter begins a unit.
  void begin_unit() { new_unit_ = true; }
  // The stem's parameter is the head's too: a rank with the head alone holds a copy, in a unit of its own.
  void share_with_head(ParamId);

  size_t size() const { return params_.size(); }
  const Param& operator[](ParamId id) const { return params_[static_cast<size_t>(id)]; }
  auto begin() const { return params_.begin(); }
  auto end() const { return params_.end(); }
  // -1 when there is none.
  ParamId find(std::string_view name) const;

  int64_t flat_elements() const { return flat_; }  // length of each flat buffer, gaps included
  int64_t logical_parameters() const;              // trainable parameters of the whole model
  int tp() const { return tp_; }
  int tp_index() const { return tp_index_; }
  int shards() const { return shards_; }
  int shard() const { return shard_; }

  const std::vector<ParamUnit>& units() const { return units_; }
  const HeldParts& held() const { return held_; }
  int unit_of(ParamId) const;  // which must be held
  // The units of the stem, of a layer, of the head (its shared embedding first).
  std::vector<int> stem_units() const { return units_at(Place::stem); }
  std::vector<int> head_units() const;
  int layer_unit(int64_t layer) const;
  // Whether stem and head share the unit, and this rank has both.
  bool shared_by_ends(int unit) const;
  // The unit that they share where this rank has only one of them; -1: none.
  int divided_unit() const;
  // Where shard `shard` of a unit lies in the flat buffers.
  Segment shard_of(const ParamUnit&, int shard) const;
  // Of a buffer with this rank's shards only, one after the other: its length, and where a unit's shard begins.
  int64_t sharded_elements() const { return flat_ / shards_; }
  int64_t sharded_offset(const ParamUnit& u) const { return u.offset / shards_; }
  // What of a unit's parameters lies in this rank's shard, or in all of the unit.
  std::vector<ParamPart> parts(const ParamUnit&, bool whole) const;
  std::vector<Segment> gaps(const ParamUnit&) const;  // flat elements that belong to no parameter

  std::vector<Slab> slabs_of(ParamId) const;  // what this rank holds of the logical tensor
  // Of a parameter cut in one piece, along that dimension: this rank's share, in the padded extent.
  Share share_of(ParamId) const;
  std::vector<Fragment> fragments_of(const ParamPart&) const;
  // What of it this rank alone answers for: its shard, less copies that a lower tensor-parallel rank also holds. Over
  // all ranks these fragments are the logical tensor, once.
  std::vector<Fragment> owned(ParamId) const;

  // Flat ranges of a unit whose gradient is a sum over tensor-parallel ranks: over those that hold copies, and, of
  // parameters where Megatron sequence parallelism cuts the rows, over all.
  std::vector<Segment> copied(const ParamUnit&) const;
  std::vector<Segment> row_cut(const ParamUnit&) const;
  // The tensor-parallel ranks that hold the same copies as this one.
  const std::vector<int>& copy_sharers() const { return copy_sharers_; }
  // Of a replicated bias on the sum of the ranks' products, which one of them has to add: whether it is this one.
  bool adds_to_sum() const { return tp_index_ == 0; }

 private:
  static constexpr int64_t kAlign = 128;  // elements
  enum class Place : uint8_t { stem, layer, head };
  bool holds(Place, int layer) const;
  void lay_out(ParamId, bool joined);  // behind what is there
  std::vector<int> units_at(Place) const;
  std::vector<Param> params_;
  std::vector<ParamUnit> units_;
  std::vector<Place> places_;  // of each parameter
  int tp_, tp_index_, shards_, shard_;
  HeldParts held_;
  ParamId shared_ = -1;
  bool new_unit_ = true;
  std::vector<int> copy_sharers_ = {tp_index_};
  int64_t flat_ = 0, cursor_ = 0;
};

// The initial value of elements [first, first + count) of the logical tensor, in row-major order: a pure function of
// (seed, name, index).
void initial_values(const Param&, uint64_t seed, int64_t first, std::span<float> out);

}  // namespace fp
