#include "pipeline/verify.h"

#include <algorithm>

#include "pipeline/findings.h"

namespace fp {
namespace {

bool is_message(ActionKind k) { return is_send(k) || is_receive(k); }

bool check_frame(const Schedule& s, Findings& findings) {
  const Placement& p = s.placement;
  if (p.ranks < 1 || p.chunks < 1)
    findings.add("{} ranks with {} chunks; expected 1 or more of each", p.ranks, p.chunks);
  else if (s.ranks.size() != static_cast<size_t>(p.ranks))
    findings.add("{} lists; expected one for each of {} ranks", s.ranks.size(), p.ranks);
  else if (s.micro_batches < 1 || s.micro_batches % p.pipes() != 0)
    findings.add("{} micro-batches; expected {}", s.micro_batches, p.two_way ? "2, 4, 6, ..." : "1 or more");
  return findings.none();
}

void check_pair(const Schedule& s, size_t r, size_t i, Findings& findings) {
  const std::vector<Action>& list = s.ranks[r];
  const bool right = list[i].kind == ActionKind::forward && i + 1 < list.size() &&
                     list[i + 1].kind == ActionKind::backward && !list[i + 1].paired_with_next;
  if (!right) findings.at(r, i, "a pair is an F and the D right after it");
}

void check_action(const Schedule& s, size_t r, size_t i, Findings& findings) {
  const Placement& p = s.placement;
  const Action& a = s.ranks[r][i];
  if (a.stage < 0 || a.stage >= p.stages()) return findings.at(r, i, "expected a stage of 0 to {}", p.stages() - 1);
  if (a.pipe >= p.pipes()) return findings.at(r, i, "there is one pipe only");
  if (is_compute(a.kind) || is_message(a.kind)) {
    if (a.micro_batch < 0 || a.micro_batch >= s.of_pipe())
      return findings.at(r, i, "expected a micro-batch of 0 to {}", s.of_pipe() - 1);
    if (p.rank_of(a.pipe, a.stage) != static_cast<int>(r))
      return findings.at(r, i, "the stage is on rank {}", p.rank_of(a.pipe, a.stage));
  } else {
    if (a.micro_batch != -1 || a.pipe != 0) return findings.at(r, i, "expected no micro-batch and no pipe");
    const int down = p.rank_of(0, a.stage), up = p.rank_of(p.pipes() - 1, a.stage);
    if (down != static_cast<int>(r) && up != static_cast<int>(r))
      return findings.at(r, i, "the stage is on rank {}{}", down, down == up ? "" : fmt::format(" and rank {}", up));
  }
  if (a.paired_with_next) check_pair(s, r, i, findings);
}

// Indices of a stage's actions for one micro-batch in its rank's list; -1: missing.
struct Cell {
  int forward = -1, input = -1, weight = -1, both = -1;
  int& of(ActionKind k) {
    return k == ActionKind::forward           ? forward
           : k == ActionKind::backward_input  ? input
           : k == ActionKind::backward_weight ? weight
                                              : both;
  }
};

void check_cell(const Cell& c, size_t r, Action a, bool backward, Findings& findings) {
  const auto missing = [&](ActionKind kind) {
    a.kind = kind;
    findings.add("rank {}: {} is missing", r, to_text(a));
  };
  const auto before = [&](int first, int second) {
    if (first >= 0 && second >= 0 && first > second)
      findings.at(r, static_cast<size_t>(second), "expected after action {}", first);
  };
  if (c.forward < 0) missing(ActionKind::forward);
  if (backward && c.both < 0) {
    if (c.input < 0) missing(ActionKind::backward_input);
    if (c.weight < 0) missing(ActionKind::backward_weight);
  }
  for (const int part : {c.input, c.weight})
    if (c.both >= 0 && part >= 0) findings.at(r, static_cast<size_t>(part), "action {} does that already", c.both);
  before(c.forward, c.input);
  before(c.forward, c.both);
  before(c.input, c.weight);
}

}  // namespace

void check_shape(const Schedule& s, Findings& findings) {
  if (!check_frame(s, findings)) return;
  for (size_t r = 0; r < s.ranks.size(); ++r)
    for (size_t i = 0; i < s.ranks[r].size(); ++i) check_action(s, r, i, findings);
}

void check_computation(const Schedule& s, Findings& findings) {
  const auto stages = static_cast<size_t>(s.placement.stages()), batches = static_cast<size_t>(s.of_pipe());
  std::vector<Cell> cells(static_cast<size_t>(s.placement.pipes()) * stages * batches);
  for (size_t r = 0; r < s.ranks.size(); ++r)
    for (size_t i = 0; i < s.ranks[r].size(); ++i) {
      const Action& a = s.ranks[r][i];
      if (!is_compute(a.kind)) continue;
      int& place =
          cells[(a.pipe * stages + static_cast<size_t>(a.stage)) * batches + static_cast<size_t>(a.micro_batch)].of(
              a.kind);
      if (place >= 0)
        findings.at(r, i, "action {} is the same; expected once", place);
      else
        place = static_cast<int>(i);
    }
  const bool backward = trains(s);
  for (size_t n = 0; n < cells.size(); ++n) {
    const Action a{ActionKind::forward, static_cast<uint8_t>(n / batches / stages), false,
                   static_cast<int>(n / batches % stages), static_cast<int>(n % batches)};
    check_cell(cells[n], static_cast<size_t>(s.placement.rank_of(a.pipe, a.stage)), a, backward, findings);
  }
}

std::vector<std::string> verify(const Schedule& s) {
  Findings findings(s);
  check_shape(s, findings);
  if (findings.none() && is_lowered(s))
    findings.add("expected compute actions only, but there are messages, gathers or reductions");
  if (findings.none()) check_computation(s, findings);
  if (findings.none()) check_progress(s, {}, findings);
  return std::move(findings).lines();
}

std::vector<std::string> verify_lowered(const Schedule& s, const LoweringOptions& options) {
  Findings findings(s);
  check_shape(s, findings);
  if (findings.none()) check_computation(s, findings);
  if (findings.none()) {
    check_messages(s, findings);
    check_weights(s, options, findings);
    check_sums(s, options, findings);
  }
  if (findings.none()) check_progress(s, options, findings);
  return std::move(findings).lines();
}

}  // namespace fp
