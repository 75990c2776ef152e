#include "launch/hub.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "launch/connect.h"
#include "launch/descriptors.h"
#include "launch/early_stop.h"
#include "launch/interfaces.h"
#include "launch/placement.h"
#include "launch/process.h"
#include "launch/suspect.h"

namespace fp {
namespace {

// Seconds that the hub waits before it reports a failure: others may be about to report the same one, or the cause of a
// broken communication.
constexpr double kSettleOwn = 0.25, kSettlePeer = 3;
constexpr double kRecheck = 0.05;  // seconds between checks of a process whose connection broke
constexpr double kDrain = 3;       // seconds that it waits at the end for the other ranks

// Descriptors of rank 0 beside a connection to each rank: unauthenticated peers, MPI, data and checkpoints.
constexpr int64_t kOtherDescriptors = UnauthenticatedPeers::kMost + 192;

}  // namespace

Hub::Hub(int size, const CommRecord& record, LifelineOptions options)
    : Member(0, record, std::move(options)), ranks_(static_cast<size_t>(size)), unauthenticated_(clock_, token_) {
  for (int rank = 0; rank < size; ++rank) ranks_[rank].state.rank = rank;
  ranks_[0].state.host = host_name();
  ranks_[0].state.pid = ::getpid();
  ranks_[0].state.node = node_name();
  ranks_[0].joined = true;
  if (size == 1) return;
  const int64_t allowed = allow_all_descriptors(), needed = size + kOtherDescriptors;
  if (allowed < needed)
    log::warning(
        "rank 0 keeps a connection to each of {} ranks and may have {} files and connections open at once "
        "(ulimit -Hn); it may need {}",
        size, allowed, needed);
  listener_.emplace(listening_addresses(addresses_of_this_host(), options_.one_host));
  MeetingPoint here{listener_->port(), token_, listener_->addresses()};
  if (!options_.one_host) here.addresses.push_back(ranks_[0].state.host);
  address_ = here.text();
}

void Hub::run() {
  Time next_tick = clock_.now();
  while (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.done; })) {
    const std::vector<int> ready = clock_.wait_readable(
        descriptors(), std::min({next_tick, failures_due_, check_lost_at_, unauthenticated_.due()}));
    update_clock();
    admit_newcomers();
    receive_from_ranks(ready);
    for (const PeerMessage& m : mailbox_.take()) {
      if (m.verb == "leave") return;
      on_message(ranks_[0], beat_of(record_.load()->activity()));  // its activity at the time of the message
      on_message(ranks_[0], m);
    }
    if (stopping_early() && failures_.empty()) on_message(ranks_[0], {"stop", {}});
    if (clock_.now() >= failures_due_) report_failures();
    if (clock_.now() >= check_lost_at_) check_lost();
    if (clock_.now() < next_tick) continue;
    tick();
    next_tick = clock_.after(options_.heartbeat_s);
  }
  for (Rank& r : ranks_) r.channel.reset();  // lets the others leave
}

std::vector<int> Hub::descriptors() const {
  std::vector<int> fds{mailbox_.fd()};
  if (listener_) {
    const std::vector<int> more = unauthenticated_.fds(*listener_);
    fds.insert(fds.end(), more.begin(), more.end());
  }
  for (const Rank& r : ranks_) {
    if (r.channel && !r.done) fds.push_back(r.channel->fd());
  }
  return fds;
}

void Hub::admit_newcomers() {
  if (!listener_) return;
  std::vector<Rank*> admitted;
  for (UnauthenticatedPeers::Newcomer& n : unauthenticated_.serve(*listener_)) {
    if (Rank* r = admit(n)) admitted.push_back(r);
  }
  update_listener();
  for (Rank* r : admitted) welcome(*r);
  if (!admitted.empty()) appoint_successor();
}

// Admits a rank that joins, or whose connection broke, which it may notice before the hub does.
Hub::Rank* Hub::admit(UnauthenticatedPeers::Newcomer& n) {
  const int64_t rank = n.hello.number(0);
  const auto refuse = [&](const std::string& why) {
    n.channel->send({"refused", {why}});
    return nullptr;
  };
  if (n.hello.verb != "hello" && n.hello.verb != "again") return refuse("its first message is neither hello nor again");
  if (rank < 1 || rank >= static_cast<int64_t>(ranks_.size()))
    return refuse(fmt::format("there are ranks 1 to {} beside rank 0, not {}", ranks_.size() - 1, rank));
  Rank& r = ranks_[rank];
  const std::string host = n.hello.text(1);
  const auto pid = static_cast<long>(n.hello.number(2));
  if (r.joined && (r.done || r.state.pid != pid || r.state.host != host))
    return refuse(fmt::format("{} has joined already", describe_process(r.state)));
  if (!r.joined && n.hello.verb == "again") return refuse(fmt::format("rank {} has not joined yet", rank));
  listener_->keep(n.door);
  r.channel = std::move(n.channel);
  r.loss.reset();
  r.heard_s = awake_s();
  if (r.joined) {
    warn_now(fmt::format("{}: its connection to rank 0 had broken and was re-established", describe_process(r.state)));
    return &r;
  }
  r.joined = true;
  r.state.host = host;
  r.state.pid = pid;
  r.state.node = n.hello.text(3);
  r.local = host == ranks_[0].state.host && process_runs(pid);
  r.changed_s = r.heard_s;
  return &r;
}

void Hub::welcome(Rank& r) const {
  const RankState& me = ranks_[0].state;
  r.channel->send({"welcome", {me.host, std::to_string(me.pid), me.node}});
}

// Listens only while a rank is missing.
void Hub::update_listener() {
  const bool missing = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return !r.joined || r.loss; });
  if (missing == listener_->is_open()) return;
  if (missing) {
    listener_->open();  // retried on the next turn if it fails
    return;
  }
  listener_->close();
  unauthenticated_.drop_all();
}

// Chooses the rank that logs the loss of rank 0: the lowest one on another host, as rank 0's host may be lost too.
void Hub::appoint_successor() {
  if (ranks_.size() < 2 || !std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.joined; })) return;
  auto successor =
      std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.state.host != ranks_[0].state.host; });
  if (successor == ranks_.end()) successor = ranks_.begin() + 1;
  broadcast({"successor", {std::to_string(successor->state.rank)}});
}

void Hub::receive_from_ranks(const std::vector<int>& ready) {
  std::vector<int> gone;
  for (Rank& r : ranks_) {
    if (!r.channel || !std::binary_search(ready.begin(), ready.end(), r.channel->fd())) continue;
    std::vector<PeerMessage> messages;
    const PeerChannel::State state = r.channel->receive(messages);
    for (const PeerMessage& m : messages) on_message(r, m);
    if (state == PeerChannel::State::closed && !r.done) gone.push_back(r.state.rank);
    if (state == PeerChannel::State::broken && !r.done) lose(r);
    if (state != PeerChannel::State::open && !r.done) r.channel.reset();
  }
  if (gone.empty()) return;
  leave_if_given_up();
  // An own failure of a rank is the cause, and this the effect. A broken connection that others report is an effect.
  std::erase_if(
      gone, [&](int rank) { return std::ranges::any_of(failures_, [&](const Failure& f) { return f.rank == rank; }); });
  if (gone.empty() || std::ranges::any_of(failures_, &Failure::own)) report_failures();
  end(kInfrastructure, gone_text(gone), gone);
}

std::string Hub::gone_text(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks)
    text += fmt::format("{}{} is gone: killed, crashed or out of reach. Last known: {}", text.empty() ? "" : "\n",
                        describe_process(ranks_[rank].state), describe(ranks_[rank].state.activity));
  return text;
}

void Hub::leave_if_given_up() const {
  const auto limit = options_.timeouts_s.find(record_.load()->activity().phase);
  if (limit == options_.timeouts_s.end() || limit->second <= 0) return;
  // As the spokes measure it: from rank 0's last heartbeat on, which may precede the pause by two heartbeat intervals.
  const double longest_s = std::max(limit->second, 3 * options_.heartbeat_s) - 2 * options_.heartbeat_s;
  if (paused_s() <= longest_s) return;
  log::warning("this process had been stopped for {:.1f} s, and the other ranks ended without it", paused_s());
  leave_now(kInfrastructure);
}

void Hub::lose(Rank& r) {
  leave_if_given_up();
  r.loss = {awake_s(), record_.load()->activity().step};
  warn_now(fmt::format("{}: its connection to rank 0 broke; it may reconnect within {:g} s. Last known: {}",
                       describe_process(r.state), kComeBackBeats * options_.heartbeat_s, describe(r.state.activity)));
  check_lost_at_ = clock_.now();
}

// A rank that does not reconnect is gone, unless rank 0 has made two steps since: the rank took part in one of them.
void Hub::check_lost() {
  std::vector<int> gone;
  check_lost_at_ = Time::max();
  const int64_t step = record_.load()->activity().step;
  for (Rank& r : ranks_) {
    if (!r.loss) continue;
    if (r.local) check_lost_at_ = clock_.after(std::min(kRecheck, options_.heartbeat_s));  // it may be about to end
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
    if (r.state.silent) warn_now(fmt::format("{} sends heartbeats again", describe_process(r.state)));
    r.state.silent = false;
  } else if (m.verb == "fail") {
    const bool own = m.text(1) != "peer";
    failures_.push_back({r.state.rank, static_cast<int>(m.number(0)), own, m.text(2)});
    failures_due_ = std::min(failures_due_, clock_.after(own ? kSettleOwn : kSettlePeer));
  } else if (m.verb == "stop") {
    stop_early();  // later messages are not reported
    on_message(r, {"fail", {std::to_string(static_cast<int>(ExitCode::interrupted))}});
  } else if (m.verb == "bye") {
    r.done = true;
  }
}

void Hub::report_failures() {
  std::vector<Failure> reported = failures_;
  std::erase_if(reported, [](const Failure& f) { return !f.own; });
  if (reported.empty()) reported = failures_;
  std::string text;
  for (auto f = reported.begin(); f != reported.end(); ++f) {
    const auto same = [&](const Failure& other) { return other.text == f->text; };
    if (std::find_if(reported.begin(), f, same) != f) continue;  // reported already
    std::vector<int> who;
    std::for_each(f, reported.end(), [&](const Failure& other) {
      if (same(other)) who.push_back(other.rank);
    });
    std::sort(who.begin(), who.end());
    const RankState& s = ranks_[f->rank].state;
    text += fmt::format("{}{} (host {}, step {}, phase {}): {}", text.empty() ? "" : "\n", ranks_text(who), s.host,
                        s.activity.step, s.activity.phase, f->text);
  }
  const bool any_own = std::ranges::any_of(reported, &Failure::own);
  std::vector<int> lost;
  for (const Rank& r : ranks_) {
    if (r.loss || (!any_own && r.state.silent && !r.done)) lost.push_back(r.state.rank);
  }
  if (!lost.empty()) text += "\n" + gone_text(lost);
  std::vector<int> odd = lost;
  for (const Failure& f : reported) {
    if (f.own && f.code == kInfrastructure) odd.push_back(f.rank);
  }
  end(reported.front().code, text, odd);
}

void Hub::tick() {
  const PeerMessage beat = beat_of(record_.load()->activity());
  if (!ranks_[0].done) on_message(ranks_[0], beat);
  if (const auto failure = failure_of_device()) on_message(ranks_[0], *failure);
  for (Rank& r : ranks_) {
    if (!r.channel) continue;
    if (r.channel->backed_up())
      r.channel->flush();
    else
      r.channel->send({"hub", beat.fields});
  }
  check_all_joined();
  check_lost();
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
    if ((!r.channel && !r.loss) || r.done || r.state.silent || silence_s < 3 * options_.heartbeat_s) continue;
    r.state.silent = true;
    warn_now(fmt::format("{} has been silent for {:.1f} s. Last known: {}", describe_process(r.state), silence_s,
                         describe(r.state.activity)));
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
  if (code == kInfrastructure && !odd.empty()) report_suspect(suspect_node(states(), odd));
  if (with_stacks)
    log_with_stacks(text);
  else
    log_now(text);
  broadcast({"end", {std::to_string(code)}});
  // The others end first: a process that exits with unread messages resets its connections, and "end" would be lost.
  await("nothing more");
  leave_now(code);
}

// The stacks are long: the verdict is logged before them, and again after them, where users look first.
void Hub::log_with_stacks(const std::string& text) {
  log_now(text + "\nStacks of the main threads:");
  broadcast({"dump", {}});
  print_stack();
  await("dumped");
  log_now(text.substr(0, text.find('\n')) + " The activity of every rank is logged above the stacks.");
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
