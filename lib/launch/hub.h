// Rank 0's end of the lifeline: receives the heartbeats of every rank, detects failures and stalls, and ends all ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/listener.h"
#include "launch/member.h"
#include "launch/unauthenticated_peers.h"

namespace fp {

class Hub final : public Member {
 public:
  Hub(int size, const CommRecord& record, LifelineOptions options);
  std::string address() const override { return address_; }
  void join(const std::string&) override { start_thread(); }

 private:
  struct Rank {
    RankState state;  // still_s is not set: see states()
    std::unique_ptr<PeerChannel> channel;
    bool joined = false, done = false;
    bool local = false;  // its process is visible from this one
    // Set while its connection is broken; the rank may reconnect.
    struct Loss {
      double since_s;  // in awake_s(); updated while steps continue without heartbeats from it
      int64_t step;    // rank 0's step at that time
    };
    std::optional<Loss> loss;
    double heard_s = 0, changed_s = 0;  // times in awake_s()
  };
  struct Failure {
    int rank, code;
    bool own;
    std::string text;
  };

  void run() override;
  std::vector<int> descriptors() const;
  void admit_newcomers();
  Rank* admit(UnauthenticatedPeers::Newcomer&);  // nullptr: it was refused
  void update_listener();
  void welcome(Rank&) const;
  void appoint_successor();
  void receive_from_ranks(const std::vector<int>& ready);
  void leave_if_given_up() const;  // by the other ranks, while this process was stopped
  void lose(Rank&);
  void check_lost();
  std::string gone_text(const std::vector<int>& ranks) const;
  void on_message(Rank&, const PeerMessage&);
  void report_failures();

  void tick();
  std::vector<RankState> states() const;  // of the ranks that have joined and are not done
  void warn_of_silence();
  void check_all_joined();

  void broadcast(const PeerMessage&);
  void log_with_stacks(const std::string& text);
  // Waits, up to a limit, until every rank that is not silent has sent `verb` or has gone.
  void await(std::string_view verb);
  // Ends all ranks. `odd`: the suspect ranks.
  [[noreturn]] void end(int code, const std::string& text, const std::vector<int>& odd, bool with_stacks = false);

  std::vector<Rank> ranks_;
  const Token token_;
  std::optional<Listener> listener_;  // nullopt with one rank; open while a rank is missing
  UnauthenticatedPeers unauthenticated_;
  std::string address_;
  std::vector<Failure> failures_;
  Time failures_due_ = Time::max();
  Time check_lost_at_ = Time::max();
};

}  // namespace fp
