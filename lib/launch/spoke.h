// The lifeline's end on every rank but 0: reports what this rank does, and ends it when the hub orders it or is gone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/connect.h"
#include "launch/member.h"

namespace fp {

class Spoke final : public Member {
 public:
  using Member::Member;
  void join(const std::string& address) override;

 private:
  void run() override;
  std::vector<std::string> introduction() const;  // the fields of "hello" and "again"
  void send(const PeerMessage&);                  // does nothing while the connection is lost
  void on_message(const PeerMessage& from_hub);
  bool on_request(const PeerMessage& from_this_process);  // false: stop
  void tick();
  // Handles a broken connection: reconnects, as long as rank 0 may still be alive.
  void lose();
  void reconnect();
  // Ends this process without the hub. Logs this rank's failure if the hub did not act on it, else that rank 0 is gone
  // if this rank is the successor.
  [[noreturn]] void end_alone(const std::string& what_of_rank_0);

  // A connection that is being re-established.
  struct Loss {
    double since_s;  // in awake_s(); updated while steps continue although the hub is not heard
    int64_t step;    // this rank's step at that time
    Time next_try;
    int tries = 0;
  };

  std::unique_ptr<PeerChannel> channel_;  // nullptr while it is lost and not re-established
  std::optional<FormerPeer> hub_peer_;
  bool hub_is_local_ = false;  // its process is visible from this one
  std::optional<Loss> loss_;
  RankState hub_;
  double heard_s_ = 0;                  // when the hub was last heard, in awake_s()
  int successor_ = 1;                   // the rank that logs that rank 0 is gone
  std::optional<PeerMessage> failure_;  // this rank's, sent to the hub
  bool closing_ = false, stopping_ = false;
  Time give_up_ = Time::max();  // deadline for the hub to answer a failure
};

}  // namespace fp
