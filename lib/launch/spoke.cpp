#include "launch/spoke.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "launch/early_stop.h"
#include "launch/placement.h"
#include "launch/suspect.h"

namespace fp {
namespace {
constexpr double kAnswer = 10;
constexpr double kSoon = 0.05;  // seconds until a lost connection is tried again
constexpr const char* kGone = "killed, crashed or out of reach";
}  // namespace

std::vector<std::string> Spoke::introduction() const {
  return {std::to_string(rank_), host_name(), std::to_string(::getpid()), node_name()};
}

void Spoke::join(const std::string& address) {
  leave_early_stop_to(mailbox_.fd());
  Greeting greeting;
  try {
    greeting = connect(address, {"hello", introduction()}, options_.connect_s);
  } catch (const InfrastructureError&) {
    if (stopping_early()) leave_now(static_cast<int>(ExitCode::interrupted));  // so is rank 0
    throw;
  }
  channel_ = std::move(greeting.channel);
  way_.emplace(*channel_);
  token_ = token_of(address);
  for (const PeerMessage& m : greeting.answers) on_message(m);
  start_thread();
}

void Spoke::run() {
  Time next_tick = clock_.now();
  for (;;) {
    std::vector<int> fds{mailbox_.fd()};
    if (channel_) fds.push_back(channel_->fd());
    clock_.wait_readable(fds, loss_ && !channel_ ? std::min(next_tick, loss_->next_try) : next_tick);
    look_at_clock();
    if (channel_) {
      std::vector<PeerMessage> messages;
      const PeerChannel::State state = channel_->receive(messages);
      for (const PeerMessage& m : messages) on_message(m);
      if (state != PeerChannel::State::open && closing_) return;
      if (state == PeerChannel::State::closed && !loss_) end_alone(kGone);
      if (state != PeerChannel::State::open) lose();
    }
    for (const PeerMessage& m : mailbox_.take()) {
      if (!on_request(m)) return;
    }
    if (loss_ && !channel_ && clock_.now() >= loss_->next_try) return_to_hub();
    if (stopping_early() && !stopping_) on_request({"stop", {}});
    if (clock_.now() < next_tick) continue;
    if (closing_ && clock_.now() > give_up_) return;
    tick();
    next_tick = clock_.after(options_.heartbeat_s);
  }
}

void Spoke::send(const PeerMessage& m) {
  if (channel_ && !loss_) channel_->send(m);
}

void Spoke::lose() {
  channel_.reset();
  if (loss_)  // of the new one: a process that ends closes its connections one after the other
    loss_->next_try = clock_.after(std::min(kSoon, options_.heartbeat_s));
  else
    loss_ = {awake_s(), record_.load()->activity().step, clock_.now()};
}

void Spoke::return_to_hub() {
  bool refused = false;
  channel_ = way_->connect(options_.heartbeat_s, refused);
  if (refused) end_alone(kGone);  // who lives listens
  loss_->next_try = clock_.after(options_.heartbeat_s);
  if (!channel_) return;
  PeerMessage again{"again", introduction()};
  again.fields.insert(again.fields.begin(), token_);
  channel_->send(again);
}

void Spoke::on_message(const PeerMessage& m) {
  heard_s_ = awake_s();
  if (m.verb == "welcome") {
    hub_.host = m.text(0);
    hub_.pid = static_cast<long>(m.number(1));
    hub_.node = m.text(2);
    if (!loss_) return;
    loss_.reset();
    // What was said last may have been lost on the way.
    send(beat_of(record_.load()->activity()));
    if (failure_) send(*failure_);
    if (stopping_) send({"stop", {}});
    if (!closing_) return;
    send({"bye", {}});
    channel_->finish_sending();
  } else if (m.verb == "hub") {
    hub_.activity = activity_of({"beat", m.fields});
  } else if (m.verb == "heir") {
    heir_ = static_cast<int>(m.number(0));
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
  send(m);
  give_up_ = clock_.after(kAnswer);
  if (m.verb == "stop") {
    stopping_ = true;
  } else if (m.verb == "bye") {
    closing_ = true;
    if (channel_) channel_->finish_sending();
  } else {
    failure_ = m;
  }
  return true;
}

void Spoke::tick() {
  const CommRecord::Activity now = record_.load()->activity();
  if (loss_) {
    // Two steps more than rank 0 was heard in: it has taken part in one of them.
    if (now.step >= loss_->step + 2) loss_->since_s = heard_s_ = awake_s(), loss_->step = now.step;
    if (awake_s() - loss_->since_s > kComeBackBeats * options_.heartbeat_s) end_alone(kGone);
  }
  if (!closing_) send(beat_of(now));
  if (const auto failure = failure_of_device()) on_request(*failure);
  if ((failure_ || stopping_) && clock_.now() > give_up_) end_alone("it does not answer");
  const auto limit = options_.timeouts_s.find(now.phase);
  if (limit == options_.timeouts_s.end() || limit->second == 0) return;
  const double silence_s = awake_s() - heard_s_, few_beats_s = 3 * options_.heartbeat_s;
  // A launcher kills all when one ends: who has something to say goes first.
  if (silence_s > std::max(limit->second, few_beats_s) + (rank_ == heir_ ? 0 : few_beats_s))
    end_alone(fmt::format("silent for {:.1f} s", silence_s));
}

void Spoke::end_alone(const std::string& what_of_rank_0) {
  const int code = failure_ ? static_cast<int>(failure_->number(0)) : kInfrastructure;
  leave_after(options_.end.longest_s, code);
  if (failure_) {
    say_now(failure_->text(2));
  } else if (rank_ == heir_) {
    if (hub_.node != node_name()) tell_suspect(hub_.node);
    say_now(
        fmt::format("{} is gone: {}. Last known: {}", describe_process(hub_), what_of_rank_0, describe(hub_.activity)));
  }
  leave_now(code);
}

}  // namespace fp
