// Checks of the messages, weights and reductions of lowered schedules.
#include <algorithm>

#include "pipeline/findings.h"
#include "pipeline/flow.h"

namespace fp {
namespace {

// Indices of the actions that produce, send, receive and consume an output in their rank's list; -1: missing.
struct Passage {
  int produced = -1, sent = -1, received = -1, consumed = -1;
};

class MessageCheck {
 public:
  MessageCheck(const Schedule& s, Findings& findings)
      : schedule_(&s),
        findings_(&findings),
        flow_(s),
        passages_(static_cast<size_t>(flow_.outputs())),
        sent_(static_cast<size_t>(flow_.channels())),
        received_(sent_.size()) {}

  void run() {
    for (size_t r = 0; r < schedule_->ranks.size(); ++r)
      for (size_t i = 0; i < schedule_->ranks[r].size(); ++i) record(r, static_cast<int>(i));
    for (int output = 0; output < flow_.outputs(); ++output)
      if (flow_.crosses(output)) check_passage(output);
    if (findings_->none())
      for (size_t c = 0; c < sent_.size(); ++c) check_order(c);
  }

 private:
  Passage& passage(int output) { return passages_[static_cast<size_t>(output)]; }

  void record(size_t r, int i) {
    const Action& a = schedule_->ranks[r][static_cast<size_t>(i)];
    const int produced = flow_.output_of(a), consumed = flow_.input_of(a);
    if (is_compute(a.kind)) {
      if (produced >= 0) passage(produced).produced = i;
      if (consumed >= 0) passage(consumed).consumed = i;
    } else if (is_send(a.kind) || is_receive(a.kind)) {
      const int output = is_send(a.kind) ? produced : consumed;
      if (!flow_.crosses(output))
        return findings_->at(r, static_cast<size_t>(i), "{}",
                             output < 0 ? "there is no such message" : "both stages are on this rank: nothing is sent");
      int& place = is_send(a.kind) ? passage(output).sent : passage(output).received;
      if (place >= 0) return findings_->at(r, static_cast<size_t>(i), "action {} is the same; expected once", place);
      place = i;
      auto& order = (is_send(a.kind) ? sent_ : received_)[static_cast<size_t>(flow_.channel_of(output))];
      order.push_back(output);
    }
  }

  void check_passage(int output) {
    const Passage& at = passage(output);
    const auto producer = static_cast<size_t>(flow_.producer(output)),
               consumer = static_cast<size_t>(flow_.consumer(output));
    if (at.produced < 0) {  // a forward-only schedule sends no gradients
      if (at.sent >= 0) findings_->at(producer, static_cast<size_t>(at.sent), "no action produces it");
      if (at.received >= 0) findings_->at(consumer, static_cast<size_t>(at.received), "no action produces it");
      return;
    }
    if (at.sent < 0) findings_->add("rank {}: {} is missing", producer, to_text(flow_.send(output)));
    if (at.received < 0) findings_->add("rank {}: {} is missing", consumer, to_text(flow_.receive(output)));
    if (at.sent >= 0 && at.sent < at.produced)
      findings_->at(producer, static_cast<size_t>(at.sent), "expected after action {}, which produces it", at.produced);
    if (at.received > at.consumed)
      findings_->at(consumer, static_cast<size_t>(at.received), "expected before action {}, which uses it",
                    at.consumed);
  }

  void check_order(size_t channel) {
    const std::vector<int>&sent = sent_[channel], &received = received_[channel];
    const auto [s, r] = std::mismatch(sent.begin(), sent.end(), received.begin());
    if (s == sent.end()) return;
    findings_->at(static_cast<size_t>(flow_.consumer(*r)), static_cast<size_t>(passage(*r).received),
                  "is message {} of its channel, but rank {} sends {} as that; expected the same order on both sides",
                  r - received.begin(), flow_.producer(*s), to_text(flow_.send(*s)));
  }

  const Schedule* schedule_;
  Findings* findings_;
  Flow flow_;
  std::vector<Passage> passages_;                  // by output
  std::vector<std::vector<int>> sent_, received_;  // by channel: outputs in order
};

class WeightCheck {
 public:
  WeightCheck(const Schedule& s, size_t r, const LoweringOptions& options, Findings& findings)
      : list_(&s.ranks[r]),
        rank_(r),
        options_(&options),
        findings_(&findings),
        gathered_(static_cast<size_t>(s.placement.stages()), -1) {}

  void run() {
    for (size_t i = 0; i < list_->size(); ++i) check(i);
    for (const int i : gathered_)
      if (i >= 0) findings_->at(rank_, static_cast<size_t>(i), "expected to be freed in the end");
  }

 private:
  void check(size_t i) {
    const Action& a = (*list_)[i];
    int& gathered = gathered_[static_cast<size_t>(a.stage)];
    if (a.kind == ActionKind::gather) {
      if (!options_->gather) return findings_->at(rank_, i, "expected none: the weights are not sharded");
      if (gathered >= 0) return findings_->at(rank_, i, "is gathered since action {}", gathered);
      if (++whole_ > options_->resident)
        findings_->at(rank_, i, "{} stages are gathered; expected {} at most", whole_, options_->resident);
      gathered = static_cast<int>(i);
    } else if (a.kind == ActionKind::free) {
      if (gathered < 0) return findings_->at(rank_, i, "is not gathered");
      gathered = -1;
      --whole_;
    } else if (options_->gather && needs_weights(a.kind, options_->w_needs_weights) && gathered < 0) {
      findings_->at(rank_, i, "the weights are not gathered; expected {} before",
                    to_text({ActionKind::gather, 0, false, a.stage, -1}));
    }
  }

  const std::vector<Action>* list_;
  size_t rank_;
  const LoweringOptions* options_;
  Findings* findings_;
  std::vector<int> gathered_;  // by stage: index of its gather; -1: not gathered
  int whole_ = 0;
};

// On one rank, each reduction of a stage must cover `every` gradients, and the last one the rest.
void check_sums_of(const Schedule& s, size_t r, int every, Findings& findings) {
  std::vector<int> to_come(static_cast<size_t>(s.placement.stages())), since(to_come.size());
  for (const Action& a : s.ranks[r])
    if (completes_gradient(a.kind)) ++to_come[static_cast<size_t>(a.stage)];
  for (size_t i = 0; i < s.ranks[r].size(); ++i) {
    const Action& a = s.ranks[r][i];
    const auto stage = static_cast<size_t>(a.stage);
    if (completes_gradient(a.kind)) {
      ++since[stage];
      --to_come[stage];
    } else if (a.kind == ActionKind::reduce) {
      const bool as_many = since[stage] == every || to_come[stage] == 0;
      if (since[stage] == 0 || !as_many || (every > 0 && since[stage] > every))
        findings.at(r, i, "reduces {} gradients with {} to come; expected {}", since[stage], to_come[stage],
                    every == 0 ? "all" : fmt::format("{} at a time", every));
      since[stage] = 0;
    }
  }
  for (size_t stage = 0; stage < since.size(); ++stage)
    if (since[stage] > 0) findings.add("rank {}: {} gradients of stage {} are never reduced", r, since[stage], stage);
}

std::vector<size_t> collectives_of(const std::vector<Action>& list) {
  std::vector<size_t> found;
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].kind == ActionKind::gather || list[i].kind == ActionKind::reduce) found.push_back(i);
  return found;
}

// Ranks r and p-1-r share their stages, so both take part in each gather and reduction.
void check_order_of_pair(const Schedule& s, size_t r, Findings& findings) {
  const size_t other = s.ranks.size() - 1 - r;
  const std::vector<size_t> mine = collectives_of(s.ranks[r]), theirs = collectives_of(s.ranks[other]);
  for (size_t k = 0; k < std::min(mine.size(), theirs.size()); ++k) {
    const Action& a = s.ranks[other][theirs[k]];
    if (s.ranks[r][mine[k]] == a) continue;
    return findings.at(r, mine[k], "is collective {} of its rank; rank {}, which shares the stage, has {} there", k,
                       other, to_text(a));
  }
  if (mine.size() != theirs.size())
    findings.add("rank {} gathers and reduces {} times; expected as often as rank {}, which shares its stages: {}", r,
                 mine.size(), other, theirs.size());
}

}  // namespace

void check_messages(const Schedule& s, Findings& findings) { MessageCheck(s, findings).run(); }

void check_weights(const Schedule& s, const LoweringOptions& options, Findings& findings) {
  for (size_t r = 0; r < s.ranks.size(); ++r) WeightCheck(s, r, options, findings).run();
}

void check_sums(const Schedule& s, const LoweringOptions& options, Findings& findings) {
  for (size_t r = 0; r < s.ranks.size(); ++r) check_sums_of(s, r, options.reduce_every, findings);
  if (!s.placement.two_way) return;
  for (size_t r = 0; r < s.ranks.size() / 2; ++r) check_order_of_pair(s, r, findings);
}

}  // namespace fp
