// Deadlock check: the order of each list and the waits between ranks must form no cycle.
#include <deque>
#include <optional>

#include "pipeline/findings.h"
#include "pipeline/flow.h"

namespace fp {
namespace {

// Removes actions whose waits are satisfied until none is left or all are blocked. Each is removed once: linear time.
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
      while (ranks_[r].next < schedule_->ranks[r].size() && !blocked(r, reach_next(r))) pass(r);
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
    std::vector<Action> collectives;  // gathers and reductions started
    size_t reached = 0;               // number of the last reduction it has reached, counted among the collectives
    std::vector<size_t> gathered;     // by stage: number of its gather among the collectives
  };
  using Awaited = std::pair<size_t, Action>;  // rank, its action

  std::string standing(size_t r) const {
    const size_t i = ranks_[r].next;
    return i < schedule_->ranks[r].size() ? fmt::format("stands at action {} ({})", i, to_text(schedule_->ranks[r][i]))
                                          : "is through";
  }

  // The action that action i of rank r still waits for, if any.
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
    const int input = flow_.input_of(a);
    if (input < 0 || passed_[static_cast<size_t>(input)]) return {};
    Action source = flow_.send(input);
    if (!lowered_ || !flow_.crosses(input))
      source.kind = source.kind == ActionKind::send_forward ? ActionKind::forward : ActionKind::backward;
    return Awaited(flow_.producer(input), source);
  }

  // Send k of a channel waits for receive k - window.
  std::optional<Awaited> blocked_send(const Action& a) const {
    const auto channel = static_cast<size_t>(flow_.channel_of(flow_.output_of(a)));
    const std::vector<int>& sent = sent_[channel];
    if (sent.size() < window_ || posted_[channel] > sent.size() - window_) return {};
    const int waited = sent[sent.size() - window_];
    return Awaited(flow_.consumer(waited), flow_.receive(waited));
  }

  // Ranks r and p-1-r of two-way schedules complete collective k - 1 together before collective k or a use of it.
  std::optional<Awaited> blocked_collective(size_t r, size_t k) const {
    const size_t other = ranks_.size() - 1 - r;
    if (!schedule_->placement.two_way || ranks_[other].collectives.size() >= k) return {};
    return Awaited(other, ranks_[r].collectives[k - 1]);
  }

  // A stage is reduced layer by layer, one after the other, so both of its ranks have to be there.
  std::optional<Awaited> blocked_sum(size_t r, const Action& a) const {
    const size_t other = ranks_.size() - 1 - r, number = ranks_[r].collectives.size() + 1;
    if (!schedule_->placement.two_way || ranks_[other].reached >= number) return {};
    return Awaited(other, a);
  }

  // Returns the index of the rank's next action; if that is a reduction, records that the rank has reached it.
  size_t reach_next(size_t r) {
    Rank& rank = ranks_[r];
    const size_t number = rank.collectives.size() + 1;
    if (schedule_->ranks[r][rank.next].kind == ActionKind::reduce && rank.reached < number) {
      rank.reached = number;
      wake(ranks_.size() - 1 - r);
    }
    return rank.next;
  }

  void pass(size_t r) {
    const Action& a = schedule_->ranks[r][ranks_[r].next++];
    if (is_compute(a.kind)) {
      const int output = flow_.output_of(a);
      if (output >= 0 && !(lowered_ && flow_.crosses(output))) arrive(output);
    } else if (is_send(a.kind)) {
      const int output = flow_.output_of(a);
      sent_[static_cast<size_t>(flow_.channel_of(output))].push_back(output);
      arrive(output);
    } else if (is_receive(a.kind)) {
      const int output = flow_.input_of(a);
      ++posted_[static_cast<size_t>(flow_.channel_of(output))];
      wake(static_cast<size_t>(flow_.producer(output)));
    } else if (a.kind != ActionKind::free) {
      ranks_[r].collectives.push_back(a);
      if (a.kind == ActionKind::gather) ranks_[r].gathered[static_cast<size_t>(a.stage)] = ranks_[r].collectives.size();
      wake(ranks_.size() - 1 - r);
    }
  }

  void arrive(int output) {
    passed_[static_cast<size_t>(output)] = true;
    wake(static_cast<size_t>(flow_.consumer(output)));
  }

  void wake(size_t r) {
    if (!ranks_[r].awake) awake_.push_back(r);
    ranks_[r].awake = true;
  }

  const Schedule* schedule_;
  size_t window_;
  bool lowered_;
  Flow flow_;
  std::vector<bool> passed_;            // by output: produced or, if it crosses ranks, sent
  std::vector<std::vector<int>> sent_;  // by channel: outputs in order
  std::vector<size_t> posted_;          // by channel: number of receives
  std::vector<Rank> ranks_;
  std::deque<size_t> awake_;
};

}  // namespace

void check_progress(const Schedule& s, const LoweringOptions& options, Findings& findings) {
  Progress(s, options).run(findings);
}

}  // namespace fp
