// StageLinks: moves outputs to the next pipeline stage and gradients back to the previous one, as messages between
// ranks and by hand-over within a rank. Each pair of neighbouring stages of a pipe has its own group, so that no link
// delays another.
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

class StageLinks {
 public:
  // Every rank of the mesh constructs its links at the same point. `in_flight`: maximum number of sends in flight per
  // pipe, direction and sending stage; the next send waits for the oldest. `parking`: tensors that wait within the
  // rank are taken in the order in which they are given, and leave this device while more than kNear wait; null: they
  // stay.
  StageLinks(const Placement&, const Groups&, int in_flight, const ModelEnv* parking = nullptr);
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
  struct StageMessage {
    OffloadedTensor tensor;
    Request request;
  };
  using Address = std::tuple<Direction, int, int, int>;  // pipe, stage, micro-batch
  Group& group(Direction, int pipe, int to_stage) const;

  Placement placement_;
  int rank_, in_flight_;
  std::map<std::pair<int, int>, std::shared_ptr<Group>> groups_;  // by pipe and the earlier stage
  std::map<Address, StageMessage> inbox_, outbox_;
  const ModelEnv* parking_;
  std::deque<Address> waiting_;  // tensors that may be parked, in the order in which they are taken
  Departures departures_;
  std::map<std::tuple<Direction, int, int>, std::deque<StageMessage>> sent_;  // by direction, pipe and sending stage
};

}  // namespace fp
