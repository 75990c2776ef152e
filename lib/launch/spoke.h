// The end of the lifeline of every rank but 0: says what this rank does, and ends it when the hub says so or is gone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/member.h"

namespace fp {

class Spoke final : public Member {
 public:
  using Member::Member;
  void join(const std::string& address) override;

 private:
  void run() override;
  std::vector<std::string> introduction() const;  // the fields of "hello" and "again"
  void send(const PeerMessage&);                  // nothing while the connection is lost
  void on_message(const PeerMessage& from_hub);
  bool on_request(const PeerMessage& from_this_process);  // false: stop
  void tick();
  // The connection broke: it is made again, as long as rank 0 may still be there.
  void lose();
  void return_to_hub();
  // The failure of this rank that the hub did not act on, or that rank 0 is gone, if it is this rank's to say.
  [[noreturn]] void end_alone(const std::string& what_of_rank_0);

  // Of a connection that is being made again.
  struct Loss {
    double since_s;  // in awake_s(); moved on while steps are made without a word
    int64_t step;    // of this rank, then
    Time next_try;
  };

  std::unique_ptr<PeerChannel> channel_;  // none while it is lost and not made again
  std::optional<FormerPeer> way_;
  std::string token_;
  std::optional<Loss> loss_;
  RankState hub_;
  double heard_s_ = 0;                  // when the hub was, in awake_s()
  int heir_ = 1;                        // the rank that says that rank 0 is gone
  std::optional<PeerMessage> failure_;  // this rank's, told to the hub
  bool closing_ = false, stopping_ = false;
  Time give_up_ = Time::max();  // the hub has answered a failure or a bye by then
};

}  // namespace fp
