// StateStream: passes the optimizer's state that lives in host memory through the device during an update. A piece is
// fetched while the one before it is updated and the one before that is written back.
#pragma once

#include <vector>

#include "model/env.h"

namespace fp {

// A part of a unit's kept state that is updated at a time, and which of its slots are.
struct StatePiece {
  enum class Slots : uint8_t { all, states, param };

  int unit = 0;
  Segment range;                 // of the table's flat buffers
  std::vector<ParamPart> parts;  // those that ParamStore::kept() returns, or parts of them
  Slots slots = Slots::all;
};

// Cuts the state that this rank keeps into pieces: units or, if some of it is in host memory, parts of units of at most
// StoreOptions::state_piece elements. Parts of a parameter begin at multiples of 8 of its elements. Where matrices have
// slots of their own, pieces of them are apart and without the parameter itself, which MatrixUpdate updates.
std::vector<StatePiece> state_pieces(const ParamStore&);
// Return numbers of elements of a piece, and of parts of all pieces, that no rank of the data group exceeds: memory of
// these sizes is equal on all of them.
int64_t largest_piece(const ParamStore&);
int64_t most_parts(const ParamStore&);
// Appends pieces of one part each that make up this part of a parameter, with its master weights alone.
void append_master_pieces(const ParamStore&, const ParamPart&, std::vector<StatePiece>&);

class StateStream {
 public:
  // Takes memory of the arena for kBuffers pieces of the state in host memory, which is returned on destruction.
  // `slots`: those that the pieces have.
  StateStream(const ModelEnv&, const std::vector<StatePiece>&, StatePiece::Slots slots = StatePiece::Slots::all);
  ~StateStream();
  StateStream(const StateStream&) = delete;
  StateStream& operator=(const StateStream&) = delete;

  // Returns the tensors of piece i, its slots in device memory. Call for all pieces in order, each time followed by
  // put_back(i) after the ops that update it.
  UpdateTensors take(size_t i);
  void put_back(size_t i);
  // Returns where a part of piece i lies in its tensors.
  ParamRange range_of(size_t i, const ParamPart& p) const { return env_->params->range_of(p, (*pieces_)[i].range); }
  // Whether a slot passes through the device; the others are there.
  bool passes(int slot) const;
  // Makes later ops wait for the last pieces to be written back. Call after the last piece.
  void finish();

  // One buffer is filled, one updated and one written back, so that both lanes are busy all the time.
  static constexpr size_t kBuffers = 3;

 private:
  struct Buffer {
    std::vector<ArenaTensor> slots;  // by slot; empty for those in device memory
    CopyTicket filled, emptied;
  };
  // Returns the tensors of piece i where they live.
  UpdateTensors at_home(size_t i) const { return env_->params->update_tensors((*pieces_)[i].range); }
  // Calls `use` with the buffer and the tensor at home of each slot of piece i that passes through the device.
  template <class Use>
  void for_each_passing(size_t i, const Use&);
  void fetch(size_t i);
  Buffer& buffer_of(size_t i) { return buffers_[i % buffers_.size()]; }

  const ModelEnv* env_;
  const std::vector<StatePiece>* pieces_;
  std::vector<Buffer> buffers_;  // none: all state is in device memory
};

}  // namespace fp
