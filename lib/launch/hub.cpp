#include "launch/hub.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "launch/descriptors.h"
#include "launch/early_stop.h"
#include "launch/placement.h"
#include "launch/suspect.h"

namespace fp {
namespace {

// How long the hub waits for more before it reports a failure: others may be about to say the same, or, after a
// communication that broke, why it did.
constexpr double kSettleOwn = 0.25, kSettlePeer = 3;
constexpr double kSoonAgain = 0.05;  // seconds between looks at a process whose connection broke
constexpr double kDrain = 3;         // how long it waits at the end for the others to go first

// Whether a process of this host has not ended, even if nobody has been told so yet.
bool process_runs(long pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  if (!std::getline(in, stat)) return false;
  const size_t name_end = stat.rfind(") ");
  const char state = name_end == std::string::npos || name_end + 2 >= stat.size() ? 'X' : stat[name_end + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace

Hub::Hub(int size, const CommRecord& record, LifelineOptions options)
    : Member(0, record, std::move(options)), ranks_(static_cast<size_t>(size)) {
  for (int rank = 0; rank < size; ++rank) ranks_[rank].state.rank = rank;
  ranks_[0].state.host = host_name();
  ranks_[0].state.pid = ::getpid();
  ranks_[0].state.node = node_name();
  ranks_[0].joined = true;
  if (size == 1) return;
  allow_all_descriptors();
  listener_ = std::make_unique<Listener>();
}

void Hub::run() {
  Time next_tick = clock_.now();
  while (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.done; })) {
    const std::vector<int> ready =
        clock_.wait_readable(descriptors(), std::min({next_tick, failures_due_, look_at_lost_}));
    look_at_clock();
    meet_newcomers();
    hear_ranks(ready);
    for (const PeerMessage& m : mailbox_.take()) {
      if (m.verb == "leave") return;
      on_message(ranks_[0], beat_of(record_.load()->activity()));  // where it is now that it says so
      on_message(ranks_[0], m);
    }
    if (stopping_early() && failures_.empty()) on_message(ranks_[0], {"stop", {}});
    if (clock_.now() >= failures_due_) report_failures();
    if (clock_.now() >= look_at_lost_) judge_lost();
    if (clock_.now() < next_tick) continue;
    tick();
    next_tick = clock_.after(options_.heartbeat_s);
  }
}

std::vector<int> Hub::descriptors() const {
  std::vector<int> fds{mailbox_.fd()};
  if (listener_) fds.push_back(listener_->fd());
  for (const Newcomer& n : newcomers_) fds.push_back(n.channel->fd());
  for (const Rank& r : ranks_) {
    if (r.channel) fds.push_back(r.channel->fd());
  }
  return fds;
}

void Hub::meet_newcomers() {
  if (!listener_) return;
  for (Descriptor d = listener_->accept(); d.get() >= 0; d = listener_->accept())
    newcomers_.push_back({std::make_unique<PeerChannel>(std::move(d)), clock_.now()});
  const size_t before = newcomers_.size();
  std::erase_if(newcomers_, [this](Newcomer& n) { return !admit(n) || !n.channel; });
  if (newcomers_.size() < before) appoint_heir();
}

bool Hub::admit(Newcomer& n) {
  std::vector<PeerMessage> messages;
  if (n.channel->receive(messages) != PeerChannel::State::open) return false;
  if (messages.empty()) return clock_.seconds_since(n.since) < options_.connect_s;
  const PeerMessage& hello = messages.front();
  if (hello.verb == "again") return take_back(n, hello);
  const int64_t rank = hello.number(1);
  if (hello.verb != "hello" || hello.text(0) != listener_->token() || rank < 1 ||
      rank >= static_cast<int64_t>(ranks_.size()) || ranks_[rank].joined)
    return false;
  Rank& r = ranks_[rank];
  r.channel = std::move(n.channel);
  r.joined = true;
  r.state.host = hello.text(2);
  r.state.pid = static_cast<long>(hello.number(3));
  r.state.node = hello.text(4);
  r.local = r.state.host == ranks_[0].state.host && process_runs(r.state.pid);
  r.heard_s = r.changed_s = awake_s();
  welcome(r);
  return true;
}

void Hub::welcome(Rank& r) const {
  const RankState& me = ranks_[0].state;
  r.channel->send({"welcome", {me.host, std::to_string(me.pid), me.node}});
}

// A rank whose connection broke, by the token and as the process that it was. It may notice before the hub does.
bool Hub::take_back(Newcomer& n, const PeerMessage& again) {
  const int64_t rank = again.number(1);
  if (again.text(0) != listener_->token() || rank < 1 || rank >= static_cast<int64_t>(ranks_.size())) return false;
  Rank& r = ranks_[rank];
  if (!r.joined || r.done || r.state.pid != static_cast<long>(again.number(3)) || r.state.host != again.text(2))
    return false;
  r.channel = std::move(n.channel);
  r.loss.reset();
  r.heard_s = awake_s();
  log::warning("{}: its connection to rank 0 had broken and was made again", describe_process(r.state));
  welcome(r);
  return true;
}

// Who speaks up when rank 0 is gone: the lowest rank that does not share its host, for the host may be gone with it.
void Hub::appoint_heir() {
  if (ranks_.size() < 2 || !std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.joined; })) return;
  auto heir =
      std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.state.host != ranks_[0].state.host; });
  if (heir == ranks_.end()) heir = ranks_.begin() + 1;
  broadcast({"heir", {std::to_string(heir->state.rank)}});
}

void Hub::hear_ranks(const std::vector<int>& ready) {
  std::vector<int> gone;
  for (Rank& r : ranks_) {
    if (!r.channel || !std::binary_search(ready.begin(), ready.end(), r.channel->fd())) continue;
    std::vector<PeerMessage> messages;
    const PeerChannel::State state = r.channel->receive(messages);
    for (const PeerMessage& m : messages) on_message(r, m);
    if (state == PeerChannel::State::closed && !r.done) gone.push_back(r.state.rank);
    if (state == PeerChannel::State::broken && !r.done) lose(r);
    if (state != PeerChannel::State::open || r.done) r.channel.reset();
  }
  if (gone.empty()) return;
  require_not_given_up();
  if (!failures_.empty()) report_failures();  // the reason, and this what it led to
  end(kInfrastructure, gone_text(gone), gone);
}

std::string Hub::gone_text(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks)
    text += fmt::format("{}{} is gone: killed, crashed or out of reach. Last known: {}", text.empty() ? "" : "\n",
                        describe_process(ranks_[rank].state), describe(ranks_[rank].state.activity));
  return text;
}

void Hub::require_not_given_up() const {
  const auto limit = options_.timeouts_s.find(record_.load()->activity().phase);
  if (limit == options_.timeouts_s.end() || limit->second <= 0 || paused_s() <= limit->second) return;
  log::warning("this process had been stopped for {:.1f} s, and the other ranks ended without it", paused_s());
  leave_now(kInfrastructure);
}

void Hub::lose(Rank& r) {
  require_not_given_up();
  r.loss = {awake_s(), record_.load()->activity().step};
  log::warning("{}: its connection to rank 0 broke; it may come back within {:g} s. Last known: {}",
               describe_process(r.state), kComeBackBeats * options_.heartbeat_s, describe(r.state.activity));
  look_at_lost_ = clock_.now();
}

// A rank that does not come back is gone, unless rank 0 has made two steps since: the rank takes part in one of them.
void Hub::judge_lost() {
  std::vector<int> gone;
  look_at_lost_ = Time::max();
  const int64_t step = record_.load()->activity().step;
  for (Rank& r : ranks_) {
    if (!r.loss) continue;
    if (r.local) look_at_lost_ = clock_.after(std::min(kSoonAgain, options_.heartbeat_s));  // it may be ending just now
    if (step >= r.loss->step + 2) r.loss = {awake_s(), step};
    const bool ended = r.local && !process_runs(r.state.pid);
    if (ended || awake_s() - r.loss->since_s > kComeBackBeats * options_.heartbeat_s) gone.push_back(r.state.rank);
  }
  if (gone.empty()) return;
  if (!failures_.empty()) report_failures();
  end(kInfrastructure, gone_text(gone), gone);
}

void Hub::on_message(Rank& r, const PeerMessage& m) {
  if (m.verb == "beat") {
    const CommRecord::Activity now = activity_of(m);
    r.heard_s = awake_s();
    if (now.progress != r.state.activity.progress) r.changed_s = r.heard_s;
    r.state.activity = now;
    if (r.state.silent) log::warning("{} is heard again", describe_process(r.state));
    r.state.silent = false;
  } else if (m.verb == "fail") {
    const bool own = m.text(1) != "peer";
    failures_.push_back({r.state.rank, static_cast<int>(m.number(0)), own, m.text(2)});
    failures_due_ = std::min(failures_due_, clock_.after(own ? kSettleOwn : kSettlePeer));
  } else if (m.verb == "stop") {
    stop_early();  // from here on, whatever else is told is no news
    on_message(r, {"fail", {std::to_string(static_cast<int>(ExitCode::interrupted))}});
  } else if (m.verb == "bye") {
    r.done = true;
  }
}

void Hub::report_failures() {
  std::vector<Failure> told = failures_;
  std::erase_if(told, [](const Failure& f) { return !f.own; });
  if (told.empty()) told = failures_;
  std::string text;
  for (auto f = told.begin(); f != told.end(); ++f) {
    const auto same = [&](const Failure& other) { return other.text == f->text; };
    if (std::find_if(told.begin(), f, same) != f) continue;  // said already
    std::vector<int> who;
    std::for_each(f, told.end(), [&](const Failure& other) {
      if (same(other)) who.push_back(other.rank);
    });
    std::sort(who.begin(), who.end());
    const RankState& s = ranks_[f->rank].state;
    text += fmt::format("{}{} (host {}, step {}, phase {}): {}", text.empty() ? "" : "\n", ranks_text(who), s.host,
                        s.activity.step, s.activity.phase, f->text);
  }
  std::vector<int> lost;
  for (const Rank& r : ranks_) {
    if (r.loss) lost.push_back(r.state.rank);
  }
  if (!lost.empty()) text += "\n" + gone_text(lost);
  std::vector<int> odd = lost;
  for (const Failure& f : told) {
    if (f.own && f.code == kInfrastructure) odd.push_back(f.rank);
  }
  end(told.front().code, text, odd);
}

void Hub::tick() {
  const PeerMessage beat = beat_of(record_.load()->activity());
  if (!ranks_[0].done) on_message(ranks_[0], beat);
  if (const auto failure = failure_of_device()) on_message(ranks_[0], *failure);
  for (Rank& r : ranks_) {
    if (r.channel && !r.channel->backed_up()) r.channel->send({"hub", beat.fields});
  }
  check_all_joined();
  judge_lost();
  warn_of_silence();
  const std::vector<RankState> now = states();
  if (is_stalled(now, options_.timeouts_s)) end(kInfrastructure, describe_stall(now), odd_ones_out(now), true);
}

std::vector<RankState> Hub::states() const {
  std::vector<RankState> list;
  for (const Rank& r : ranks_) {
    if (!r.joined || r.done) continue;
    list.push_back(r.state);
    list.back().still_s = awake_s() - r.changed_s;
  }
  return list;
}

void Hub::warn_of_silence() {
  for (Rank& r : ranks_) {
    const double silence_s = awake_s() - r.heard_s;
    if ((!r.channel && !r.loss) || r.state.silent || silence_s < 3 * options_.heartbeat_s) continue;
    r.state.silent = true;
    log::warning("{} has been silent for {:.1f} s. Last known: {}", describe_process(r.state), silence_s,
                 describe(r.state.activity));
  }
}

void Hub::check_all_joined() {
  if (awake_s() < options_.connect_s) return;
  std::vector<int> missing;
  for (const Rank& r : ranks_) {
    if (!r.joined) missing.push_back(r.state.rank);
  }
  if (!missing.empty())
    end(kInfrastructure,
        fmt::format("{} did not reach rank 0 on host {} within {} s (watchdog.connect_s)", ranks_text(missing),
                    ranks_[0].state.host, options_.connect_s),
        {});
}

void Hub::broadcast(const PeerMessage& m) {
  for (Rank& r : ranks_) {
    if (r.channel) r.channel->send(m);
  }
}

void Hub::end(int code, const std::string& text, const std::vector<int>& odd, bool with_stacks) {
  if (stopping_early()) code = static_cast<int>(ExitCode::interrupted);
  leave_after(options_.end.longest_s, code);
  if (code == kInfrastructure && !odd.empty()) tell_suspect(suspect_node(states(), odd));
  if (with_stacks)
    say_with_stacks(text);
  else
    say_now(text);
  broadcast({"end", {std::to_string(code)}});
  // They go first: a process that leaves with unread messages resets its connections, and the last word is lost.
  await("nothing more");
  leave_now(code);
}

// The stacks are long: the verdict stands before them, and after them, where people look first.
void Hub::say_with_stacks(const std::string& text) {
  say_now(text + "\nStacks of the main threads:");
  broadcast({"dump", {}});
  print_stack();
  await("dumped");
  say_now(text.substr(0, text.find('\n')) + " What every rank does is said above the stacks.");
}

void Hub::await(std::string_view verb) {
  std::vector<Rank*> awaited;
  for (Rank& r : ranks_) {
    if (r.channel && !r.state.silent) awaited.push_back(&r);
  }
  const Time until = clock_.after(kDrain);
  while (clock_.now() < until) {
    std::erase_if(awaited, [&](Rank* r) {
      std::vector<PeerMessage> messages;
      if (r->channel->receive(messages) != PeerChannel::State::open) r->channel.reset();
      return !r->channel ||
             std::any_of(messages.begin(), messages.end(), [&](const PeerMessage& m) { return m.verb == verb; });
    });
    if (awaited.empty()) return;
    std::vector<int> fds;
    for (const Rank* r : awaited) fds.push_back(r->channel->fd());
    clock_.wait_readable(fds, until);
  }
}

}  // namespace fp
