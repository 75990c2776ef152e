#include "launch/spoke.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "launch/early_stop.h"
#include "launch/placement.h"

namespace fp {
namespace {
constexpr double kAnswer = 10;
}

void Spoke::join(const std::string& address) {
  const PeerMessage hello{"hello", {std::to_string(rank_), host_name(), std::to_string(::getpid())}};
  leave_early_stop_to(mailbox_.fd());
  Greeting greeting;
  try {
    greeting = connect(address, hello, options_.connect_s);
  } catch (const DeviceError&) {
    if (stopping_early()) leave_now(static_cast<int>(ExitCode::interrupted));  // so is rank 0
    throw;
  }
  channel_ = std::move(greeting.channel);
  for (const PeerMessage& m : greeting.answers) on_message(m);
  start_thread();
}

void Spoke::run() {
  Time next_tick = clock_.now();
  for (;;) {
    clock_.wait_readable({mailbox_.fd(), channel_->fd()}, next_tick);
    look_at_clock();
    std::vector<PeerMessage> messages;
    const bool open = channel_->receive(messages);
    for (const PeerMessage& m : messages) on_message(m);
    if (!open && closing_) return;
    if (!open) end_alone("killed, crashed or out of reach");
    for (const PeerMessage& m : mailbox_.take()) {
      if (!on_request(m)) return;
    }
    if (stopping_early() && !stopping_) on_request({"stop", {}});
    if (clock_.now() < next_tick) continue;
    if (closing_ && clock_.now() > give_up_) return;
    tick();
    next_tick = clock_.after(options_.heartbeat_s);
  }
}

void Spoke::on_message(const PeerMessage& m) {
  heard_s_ = awake_s();
  if (m.verb == "welcome") {
    hub_.host = m.text(0);
    hub_.pid = static_cast<long>(m.number(1));
  } else if (m.verb == "hub") {
    hub_.activity = activity_of({"beat", m.fields});
  } else if (m.verb == "heir") {
    heir_ = static_cast<int>(m.number(0));
  } else if (m.verb == "dump") {
    leave_after(options_.end.longest_s, 1);  // an "end" follows
    print_stack();
    channel_->send({"dumped", {}});
  } else if (m.verb == "end") {
    leave_now(static_cast<int>(m.number(0)));
  }
}

bool Spoke::on_request(const PeerMessage& m) {
  if (m.verb == "leave") return false;
  channel_->send(beat_of(record_.load()->activity()));
  channel_->send(m);
  give_up_ = clock_.after(kAnswer);
  if (m.verb == "stop") {
    stopping_ = true;
  } else if (m.verb == "bye") {
    closing_ = true;
    channel_->finish_sending();
  } else {
    failure_ = m;
  }
  return true;
}

void Spoke::tick() {
  const CommRecord::Activity now = record_.load()->activity();
  if (!closing_) channel_->send(beat_of(now));
  if ((failure_ || stopping_) && clock_.now() > give_up_) end_alone("it does not answer");
  const auto limit = options_.timeouts_s.find(now.phase);
  if (limit == options_.timeouts_s.end() || limit->second == 0) return;
  const double silence_s = awake_s() - heard_s_, few_beats_s = 3 * options_.heartbeat_s;
  // A launcher kills all when one ends: who has something to say goes first.
  if (silence_s > std::max(limit->second, few_beats_s) + (rank_ == heir_ ? 0 : few_beats_s))
    end_alone(fmt::format("silent for {:.1f} s", silence_s));
}

void Spoke::end_alone(const std::string& what_of_rank_0) {
  const int code = failure_ ? static_cast<int>(failure_->number(0)) : 1;
  leave_after(options_.end.longest_s, code);
  if (failure_) {
    say_now(failure_->text(2));
  } else if (rank_ == heir_) {
    say_now(
        fmt::format("{} is gone: {}. Last known: {}", describe_process(hub_), what_of_rank_0, describe(hub_.activity)));
  }
  leave_now(code);
}

}  // namespace fp
