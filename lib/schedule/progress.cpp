// Absence of deadlock: the order of each list and everything that an action waits for on other ranks have no circle.
#include <deque>
#include <optional>

#include "schedule/findings.h"
#include "schedule/flow.h"

namespace fp {
namespace {

// Takes actions away whose waits are over until none is left, or none can be taken: each once, so in linear time.
class Progress {
 public:
  Progress(const Schedule& s, const LoweringOptions& options)
      : schedule_(&s),
        window_(static_cast<size_t>(options.sends_in_flight)),
        lowered_(is_lowered(s)),
        flow_(s),
        passed_(static_cast<size_t>(flow_.outputs())),
        sent_(static_cast<size_t>(flow_.channels())),
        posted_(sent_.size()),
        ranks_(s.ranks.size()) {
    for (Rank& rank : ranks_) rank.gathered.resize(static_cast<size_t>(s.placement.stages()));
  }

  void run(Findings& findings) {
    for (size_t r = 0; r < ranks_.size(); ++r) wake(r);
    while (!awake_.empty()) {
      const size_t r = awake_.front();
      awake_.pop_front();
      ranks_[r].awake = false;
      while (ranks_[r].next < schedule_->ranks[r].size() && !blocked(r, come_to_sum(r))) pass(r);
    }
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].next < schedule_->ranks[r].size()) {
        const auto [other, action] = *blocked(r, ranks_[r].next);
        findings.at(r, ranks_[r].next, "waits for ever for {} of rank {}, which {}", to_text(action), other,
                    standing(other));
      }
  }

 private:
  struct Rank {
    size_t next = 0;
    bool awake = false;
    std::vector<Action> collectives;  // gathers and sums begun
    size_t come = 0;                  // the number of the last sum it has come to
    std::vector<size_t> gathered;     // by stage: the number of its gather among them
  };
  using Awaited = std::pair<size_t, Action>;  // rank, its action

  std::string standing(size_t r) const {
    const size_t i = ranks_[r].next;
    return i < schedule_->ranks[r].size() ? fmt::format("stands at action {} ({})", i, to_text(schedule_->ranks[r][i]))
                                          : "is through";
  }

  // What an action of rank r still waits for.
  std::optional<Awaited> blocked(size_t r, size_t i) const {
    const Action& a = schedule_->ranks[r][i];
    if (is_send(a.kind)) return blocked_send(a);
    if (is_receive(a.kind) || a.kind == ActionKind::free) return {};
    if (a.kind == ActionKind::reduce) return blocked_sum(r, a);
    if (!is_compute(a.kind)) return blocked_collective(r, ranks_[r].collectives.size());
    if (const auto input = blocked_input(a)) return input;
    if (a.kind != ActionKind::backward_weight)
      if (const auto weights = blocked_collective(r, ranks_[r].gathered[static_cast<size_t>(a.stage)])) return weights;
    return a.paired_with_next ? blocked(r, i + 1) : std::nullopt;
  }

  std::optional<Awaited> blocked_input(const Action& a) const {
    const int input = flow_.taken(a);
    if (input < 0 || passed_[static_cast<size_t>(input)]) return {};
    Action giving = flow_.send(input);
    if (!lowered_ || !flow_.crosses(input))
      giving.kind = giving.kind == ActionKind::send_forward ? ActionKind::forward : ActionKind::backward;
    return Awaited(flow_.giver(input), giving);
  }

  // Send k of a channel waits for receive k - window.
  std::optional<Awaited> blocked_send(const Action& a) const {
    const auto channel = static_cast<size_t>(flow_.channel_of(flow_.given(a)));
    const std::vector<int>& sent = sent_[channel];
    if (sent.size() < window_ || posted_[channel] > sent.size() - window_) return {};
    const int waited = sent[sent.size() - window_];
    return Awaited(flow_.taker(waited), flow_.receive(waited));
  }

  // Ranks r and p-1-r of two-way schedules do number k - 1 together before number k, and before they use it.
  std::optional<Awaited> blocked_collective(size_t r, size_t k) const {
    const size_t other = ranks_.size() - 1 - r;
    if (!schedule_->placement.two_way || ranks_[other].collectives.size() >= k) return {};
    return Awaited(other, ranks_[r].collectives[k - 1]);
  }

  // A stage is summed layer by layer, each sum after the one before: its ranks do that together.
  std::optional<Awaited> blocked_sum(size_t r, const Action& a) const {
    const size_t other = ranks_.size() - 1 - r, number = ranks_[r].collectives.size() + 1;
    if (!schedule_->placement.two_way || ranks_[other].come >= number) return {};
    return Awaited(other, a);
  }

  // The place of the rank's next action.
  size_t come_to_sum(size_t r) {
    Rank& rank = ranks_[r];
    const size_t number = rank.collectives.size() + 1;
    if (schedule_->ranks[r][rank.next].kind == ActionKind::reduce && rank.come < number) {
      rank.come = number;
      wake(ranks_.size() - 1 - r);
    }
    return rank.next;
  }

  void pass(size_t r) {
    const Action& a = schedule_->ranks[r][ranks_[r].next++];
    if (is_compute(a.kind)) {
      const int output = flow_.given(a);
      if (output >= 0 && !(lowered_ && flow_.crosses(output))) arrive(output);
    } else if (is_send(a.kind)) {
      const int output = flow_.given(a);
      sent_[static_cast<size_t>(flow_.channel_of(output))].push_back(output);
      arrive(output);
    } else if (is_receive(a.kind)) {
      const int output = flow_.taken(a);
      ++posted_[static_cast<size_t>(flow_.channel_of(output))];
      wake(static_cast<size_t>(flow_.giver(output)));
    } else if (a.kind != ActionKind::free) {
      ranks_[r].collectives.push_back(a);
      if (a.kind == ActionKind::gather) ranks_[r].gathered[static_cast<size_t>(a.stage)] = ranks_[r].collectives.size();
      wake(ranks_.size() - 1 - r);
    }
  }

  void arrive(int output) {
    passed_[static_cast<size_t>(output)] = true;
    wake(static_cast<size_t>(flow_.taker(output)));
  }

  void wake(size_t r) {
    if (!ranks_[r].awake) awake_.push_back(r);
    ranks_[r].awake = true;
  }

  const Schedule* schedule_;
  size_t window_;
  bool lowered_;
  Flow flow_;
  std::vector<bool> passed_;            // by output: it is made, or under way to its rank
  std::vector<std::vector<int>> sent_;  // by channel: outputs in order
  std::vector<size_t> posted_;          // by channel: receives
  std::vector<Rank> ranks_;
  std::deque<size_t> awake_;
};

}  // namespace

void check_progress(const Schedule& s, const LoweringOptions& options, Findings& findings) {
  Progress(s, options).run(findings);
}

}  // namespace fp
