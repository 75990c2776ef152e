// Rank 0's end of the lifeline: hears every rank, judges, and ends them all.
#pragma once

#include <memory>
#include <optional>
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
    bool local = false;  // its process can be seen from here
    // Its connection broke; it may come back.
    struct Loss {
      double since_s;  // in awake_s(); moved on while steps are made without a word of it
      int64_t step;    // of rank 0, then
    };
    std::optional<Loss> loss;
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
  bool take_back(Newcomer&, const PeerMessage& again);
  void welcome(Rank&) const;
  void appoint_heir();
  void hear_ranks(const std::vector<int>& ready);
  void require_not_given_up() const;  // by the others, while this process was stopped
  void lose(Rank&);
  void judge_lost();
  std::string gone_text(const std::vector<int>& ranks) const;
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
  // `odd`: the ranks that stand out.
  [[noreturn]] void end(int code, const std::string& text, const std::vector<int>& odd, bool with_stacks = false);

  std::unique_ptr<Listener> listener_;  // none with one rank
  std::vector<Rank> ranks_;
  std::vector<Newcomer> newcomers_;
  std::vector<Failure> failures_;
  Time failures_due_ = Time::max();
  Time look_at_lost_ = Time::max();
};

}  // namespace fp
