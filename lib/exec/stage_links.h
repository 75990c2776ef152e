// StageLinks: moves outputs to the next pipeline stage and gradients back to the previous one, as messages between
// ranks and by hand-over within a rank. Two ranks have one group, however many of their stages are neighbours: a
// lowered schedule sends and receives all messages from one to the other in the same order (pipeline/lower.h), so that
// none waits for a message behind it.
//
// If all tensor-parallel ranks hold the same tensor, and the next stage is on another node, each sends only its own
// part; the receivers, which share a node, then gather the parts (the scatter/gather of Megatron-LM, Narayanan et al.
// 2021, section 4.1).
//
// Where all micro-batches pass through a stage before the next one, many tensors wait within a rank. If activations are
// offloaded, they wait in host memory; the first that is due comes back one pass ahead.
#pragma once

#include <deque>
#include <map>
#include <tuple>

#include "comm/comm.h"
#include "model/groups.h"
#include "model/offloaded_tensor.h"
#include "pipeline/schedule.h"
#include "tensor/arena.h"

namespace fp {

// Returns whether the tensor-parallel ranks at `at` each send only a part of a tensor that all of them hold, between
// pipeline ranks a and b: the tensor group of each pipeline rank is on one node, and the two nodes differ.
bool sends_in_parts(const Mesh&, const NodeMap&, const Coordinate& at, int a, int b);

struct LinkOptions {
  int in_flight = 1;  // maximum number of sends in flight per pipe, direction and sending stage; the next one waits
  bool same_on_tensor_ranks = false;  // all ranks of a tensor group hold the same tensors between stages
  // Tensors that wait within the rank are taken in the order in which they are given, and leave this device while more
  // than StageLinks::kNear wait; null: they stay.
  const ModelEnv* parking = nullptr;
};

class StageLinks {
 public:
  // Every rank of the mesh constructs its links at the same point.
  StageLinks(const Placement&, const Groups&, const LinkOptions&);
  static constexpr size_t kNear = 2;

  enum class Direction : uint8_t { forward, backward };
  // Starts receiving the input of the action's stage and micro-batch into `memory`: the input of F, or the gradient of
  // the output for B and D.
  void receive(Direction, const Action&, ArenaTensor memory);
  // Returns that input; waits for its message. It may still be in host memory, too.
  OffloadedTensor take(Direction, const Action&);
  // Hands over the output of the action's F, B or D: it is kept until send(), or for take() by the neighbouring stage
  // if that is on this rank.
  void give(Direction, const Action&, ArenaTensor);
  void send(Direction, const Action&);
  // Waits for all sends. Throws InternalError if messages are left over.
  void finish();

 private:
  struct Link {
    std::shared_ptr<Group> pair;
    bool in_parts = false;
  };
  struct StageMessage {
    OffloadedTensor tensor;
    Request request;
    bool in_parts = false;  // this rank's part alone is received
  };
  using Address = std::tuple<Direction, int, int, int>;  // pipe, stage, micro-batch
  const Link& link(int pipe, int stage) const;           // to the rank of this stage
  // Whether a tensor is sent in parts of equal size, and this rank's part.
  bool divides(const Link&, const Tensor& whole) const;
  Tensor part_of(const Tensor& whole) const;

  Placement placement_;
  std::shared_ptr<Group> tensor_;
  int rank_;
  LinkOptions options_;
  std::map<int, Link> links_;  // by pipeline rank
  std::map<Address, StageMessage> inbox_, outbox_;
  std::deque<Address> waiting_;  // tensors that may be parked, in the order in which they are taken
  Departures departures_;
  std::map<std::tuple<Direction, int, int>, std::deque<StageMessage>> sent_;  // by direction, pipe and sending stage
};

}  // namespace fp
