// The ways between pipeline stages: outputs to the next stage and gradients back, between ranks as messages, within a
// rank by hand. A way between two stages of a pipe has a group of its own, so none holds up another.
#pragma once

#include <deque>
#include <map>
#include <tuple>

#include "comm/comm.h"
#include "model/groups.h"
#include "schedule/schedule.h"
#include "tensor/arena.h"

namespace fp {

class StageLinks {
 public:
  // Every rank of the mesh makes its links at the same place. `in_flight`: sends of a way at a time, after which the
  // oldest is waited for.
  StageLinks(const Placement&, const Groups&, int in_flight);

  enum class Way : uint8_t { forward, backward };
  // What comes to (stage, micro-batch) of an action: the input of F, or the gradient of the output for B and D.
  void receive(Way, const Action&, ArenaTensor room);
  ArenaTensor take(Way, const Action&);  // waits for it
  // What F, or B or D, of the action gave: kept until send(), or put where the neighbouring stage on this rank takes
  // it.
  void give(Way, const Action&, ArenaTensor);
  void send(Way, const Action&);
  // Waits for all that was sent.
  void finish();

 private:
  struct Mail {
    ArenaTensor tensor;
    Request request;
  };
  using Address = std::tuple<Way, int, int, int>;  // pipe, stage, micro-batch
  Group& group(Way, int pipe, int to_stage) const;

  Placement placement_;
  int rank_, in_flight_;
  std::map<std::pair<int, int>, std::shared_ptr<Group>> groups_;  // by pipe and the earlier stage
  std::map<Address, Mail> inbox_, outbox_;
  std::map<std::tuple<Way, int, int>, std::deque<Mail>> sent_;  // by way, pipe and sending stage
};

}  // namespace fp
