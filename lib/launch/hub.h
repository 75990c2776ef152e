// Rank 0's end of the lifeline: hears every rank, judges, and ends them all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/member.h"

namespace fp {

class Hub final : public Member {
 public:
  Hub(int size, const CommRecord& record, LifelineOptions options);
  std::string address() const override { return listener_ ? listener_->address() : ""; }
  void join(const std::string&) override { start_thread(); }

 private:
  struct Rank {
    RankState state;  // but for what time tells: see states()
    std::unique_ptr<PeerChannel> channel;
    bool joined = false, done = false;
    double heard_s = 0, changed_s = 0;  // when, in awake_s()
  };
  struct Newcomer {
    std::unique_ptr<PeerChannel> channel;
    Time since;
  };
  struct Failure {
    int rank, code;
    bool own;
    std::string text;
  };

  void run() override;
  std::vector<int> descriptors() const;
  void meet_newcomers();
  bool admit(Newcomer&);  // false: it is none of ours
  void appoint_heir();
  void hear_ranks(const std::vector<int>& ready);
  bool given_up() const;  // by the others, while this process was stopped
  void on_message(Rank&, const PeerMessage&);
  void report_failures();

  void tick();
  std::vector<RankState> states() const;  // of the ranks that take part
  void warn_of_silence();
  void check_all_joined();

  void broadcast(const PeerMessage&);
  void say_with_stacks(const std::string& text);
  // Until every rank that is not silent has said `verb` or has gone; not for ever.
  void await(std::string_view verb);
  [[noreturn]] void end(int code, const std::string& text, bool with_stacks = false);

  std::unique_ptr<Listener> listener_;  // none with one rank
  std::vector<Rank> ranks_;
  std::vector<Newcomer> newcomers_;
  std::vector<Failure> failures_;
  Time failures_due_ = Time::max();
};

}  // namespace fp
