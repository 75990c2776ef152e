#include "launch/spoke.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "launch/early_stop.h"
#include "launch/placement.h"
#include "launch/process.h"
#include "launch/suspect.h"

namespace fp {
namespace {
constexpr double kAnswer = 10;
constexpr double kRetry = 0.05;  // seconds until a lost connection is tried again
constexpr const char* kGone = "killed, crashed or out of reach";
}  // namespace

std::vector<std::string> Spoke::introduction() const {
  return {std::to_string(rank_), host_name(), std::to_string(::getpid()), node_name()};
}

void Spoke::join(const std::string& address) {
  leave_early_stop_to(mailbox_.fd());
  const MeetingPoint rank_0 = MeetingPoint::from_text(address);
  Greeting greeting;
  try {
    greeting = connect(rank_0, {"hello", introduction()}, options_.connect_s, rank_);
  } catch (const InfrastructureError&) {
    if (stopping_early()) leave_now(static_cast<int>(ExitCode::interrupted));  // as does rank 0
    throw;
  }
  channel_ = std::move(greeting.channel);
  hub_peer_.emplace(*channel_, rank_0.token);
  for (const PeerMessage& m : greeting.answers) on_message(m);
  start_thread();
}

void Spoke::run() {
  Time next_tick = clock_.now();
  for (;;) {
    std::vector<int> fds{mailbox_.fd()};
    if (channel_) fds.push_back(channel_->fd());
    clock_.wait_readable(fds, loss_ && !channel_ ? std::min(next_tick, loss_->next_try) : next_tick);
    update_clock();
    if (channel_) {
      std::vector<PeerMessage> messages;
      const PeerChannel::State state = channel_->receive(messages);
      for (const PeerMessage& m : messages) on_message(m);
      if (state != PeerChannel::State::open && closing_ && !loss_) return;
      if (state == PeerChannel::State::closed && !loss_) end_alone(kGone);
      if (state != PeerChannel::State::open) lose();
    }
    for (const PeerMessage& m : mailbox_.take()) {
      if (!on_request(m)) return;
    }
    if (loss_ && !channel_ && clock_.now() >= loss_->next_try) reconnect();
    if (stopping_early() && !stopping_) on_request({"stop", {}});
    if (clock_.now() < next_tick) continue;
    tick();
    next_tick = clock_.after(options_.heartbeat_s);
  }
}

void Spoke::send(const PeerMessage& m) {
  if (channel_ && !loss_) channel_->send(m);
}

void Spoke::lose() {
  channel_.reset();
  if (!loss_)
    loss_ = {awake_s(), record_.load()->activity().step, clock_.now()};
  else  // the new connection broke too: a process that ends closes its connections one by one
    loss_->next_try = clock_.after(std::min(kRetry, options_.heartbeat_s));
}

// Rank 0 accepts connections once it has noticed the loss, which may take a heartbeat or two.
void Spoke::reconnect() {
  const bool sees_the_end = rank_ == successor_ && hub_is_local_;
  if (sees_the_end && !process_runs(hub_.pid)) end_alone(kGone);
  channel_ = hub_peer_->connect(options_.heartbeat_s);
  const double pause_s = options_.heartbeat_s * (0.5 + 0.5 * jitter(rank_, 0, ++loss_->tries));
  // Launchers kill all ranks within a second or two of the end of one.
  loss_->next_try = clock_.after(sees_the_end ? std::min(kRetry, pause_s) : pause_s);
  if (channel_) channel_->send({"again", introduction()});
}

void Spoke::on_message(const PeerMessage& m) {
  heard_s_ = awake_s();
  if (m.verb == "welcome") {
    hub_.host = m.text(0);
    hub_.pid = static_cast<long>(m.number(1));
    hub_.node = m.text(2);
    hub_is_local_ = hub_.host == host_name() && process_runs(hub_.pid);
    if (!loss_) return;
    loss_.reset();
    // The last messages may have been lost.
    send(beat_of(record_.load()->activity()));
    if (failure_) send(*failure_);
    if (stopping_) send({"stop", {}});
    if (!closing_) return;
    send({"bye", {}});
    channel_->finish_sending();
  } else if (m.verb == "hub") {
    hub_.activity = activity_of({"beat", m.fields});
  } else if (m.verb == "successor") {
    successor_ = static_cast<int>(m.number(0));
  } else if (m.verb == "dump") {
    leave_after(options_.end.longest_s, kInfrastructure);  // an "end" follows
    print_stack();
    send({"dumped", {}});
  } else if (m.verb == "end") {
    leave_now(static_cast<int>(m.number(0)));
  }
}

bool Spoke::on_request(const PeerMessage& m) {
  if (m.verb == "leave") return false;
  send(beat_of(record_.load()->activity()));
  if (m.verb == "report") return true;
  send(m);
  give_up_ = clock_.after(kAnswer);
  if (m.verb == "stop") {
    stopping_ = true;
  } else if (m.verb == "bye") {
    closing_ = true;
    if (channel_ && !loss_) channel_->finish_sending();
  } else {
    failure_ = m;
  }
  return true;
}

void Spoke::tick() {
  const CommRecord::Activity now = record_.load()->activity();
  // A launcher kills all ranks when one ends: the rank that has an error to log must end first.
  const double few_beats_s = 3 * options_.heartbeat_s, later_s = rank_ == successor_ ? 0 : few_beats_s;
  if (loss_) {
    // After two more steps, rank 0 must have taken part in one of them.
    if (now.step >= loss_->step + 2) loss_->since_s = heard_s_ = awake_s(), loss_->step = now.step;
    if (awake_s() - loss_->since_s > kComeBackBeats * options_.heartbeat_s + later_s) end_alone(kGone);
  }
  if (!closing_) send(beat_of(now));
  if (const auto failure = failure_of_device()) on_request(*failure);
  if ((failure_ || stopping_) && clock_.now() > give_up_) end_alone("it does not answer");
  const auto limit = options_.timeouts_s.find(now.phase);
  if (limit == options_.timeouts_s.end() || limit->second == 0) return;
  const double silence_s = awake_s() - heard_s_;
  if (silence_s > std::max(limit->second, few_beats_s) + later_s)
    end_alone(fmt::format("silent for {:.1f} s", silence_s));
}

void Spoke::end_alone(const std::string& what_of_rank_0) {
  const int code = failure_ ? static_cast<int>(failure_->number(0)) : kInfrastructure;
  leave_after(options_.end.longest_s, code);
  if (failure_) {
    log_now(failure_->text(2));
  } else if (rank_ == successor_) {
    if (hub_.node != node_name()) report_suspect(hub_.node);
    log_now(
        fmt::format("{} is gone: {}. Last known: {}", describe_process(hub_), what_of_rank_0, describe(hub_.activity)));
  }
  leave_now(code);
}

}  // namespace fp
