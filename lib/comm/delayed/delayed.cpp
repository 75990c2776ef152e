// Each communication of the inner world is accompanied by one of the times at which its ranks started it, over a group
// of its own. Ranks are on one machine, so they share a clock.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "comm/backends.h"

namespace fp {
namespace {

using Clock = std::chrono::steady_clock;
using Time = std::chrono::nanoseconds;  // since the clock's epoch

Time now() { return Clock::now().time_since_epoch(); }

// A time as a tensor of two integers.
struct TimeWords {
  int32_t words[2] = {};
  TimeWords() = default;
  explicit TimeWords(Time t) {
    const int64_t n = t.count();
    std::memcpy(words, &n, sizeof n);
  }
  Time time() const {
    int64_t n = 0;
    std::memcpy(&n, words, sizeof n);
    return Time(n);
  }
};
Tensor tensor_of(std::vector<TimeWords>& times) {
  return {times.data(), DType::i32, {2 * static_cast<int64_t>(times.size())}};
}

// The end of a communication, known once its ranks' times have arrived.
struct End {
  Time seconds{};
  std::vector<TimeWords> mine, all;
  Request times;
  Time end{-1};
};

// The communications of a group, or of one direction of a pair, one after the other.
struct Lane {
  Time busy_until{};
  std::deque<std::shared_ptr<End>> unknown;

  Time end_of(const End& e) {
    while (e.end.count() < 0) {
      End& next = *unknown.front();
      next.times.wait();
      Time start{};
      for (const TimeWords& t : next.all) start = std::max(start, t.time());
      busy_until = next.end = std::max(busy_until, start) + next.seconds;
      unknown.pop_front();
    }
    return e.end;
  }
};

class Delayed final : public Operation {
 public:
  Delayed(Request moves, std::shared_ptr<Lane> lane, std::shared_ptr<End> end)
      : moves_(std::move(moves)), lane_(std::move(lane)), end_(std::move(end)) {}
  void wait() override {
    moves_.wait();
    const Time end = lane_->end_of(*end_);
    end_->times.wait();
    std::this_thread::sleep_until(Clock::time_point(end));
  }

 private:
  Request moves_;
  std::shared_ptr<Lane> lane_;
  std::shared_ptr<End> end_;
};

class DelayedGroup final : public Group {
 public:
  DelayedGroup(const std::string& name, CommRecord& record, std::shared_ptr<Group> inner, std::shared_ptr<Group> clock,
               std::vector<int> ranks, const CommSeconds& seconds)
      : Group(name, inner->rank(), inner->size(), record),
        inner_(std::move(inner)),
        clock_(std::move(clock)),
        ranks_(std::move(ranks)),
        seconds_(seconds) {}

 private:
  Time time_of(CommKind kind, int64_t sent, const UnevenPieces& pieces = {}) const {
    return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds_(kind, ranks_, sent, pieces)));
  }

  std::unique_ptr<Operation> start(const CommCall& c) override {
    const auto end = std::make_shared<End>();
    const int64_t sent =
        sent_elements(c, rank(), size()) * static_cast<int64_t>(size_of(c.from ? c.from.dtype : c.to.dtype));
    std::shared_ptr<Lane> lane = lane_;
    if (c.kind == CommKind::send) {
      lane->busy_until = end->end = std::max(lane->busy_until, now()) + time_of(c.kind, sent);
      end->mine = {TimeWords(end->end)};
      end->times = clock_->start_send(tensor_of(end->mine), c.peer);
    } else if (c.kind == CommKind::recv) {
      lane = received_;
      end->all.resize(1);
      end->times = clock_->start_recv(tensor_of(end->all), c.peer);
      lane->unknown.push_back(end);
    } else {
      end->seconds = time_of(c.kind, sent, uneven_pieces(c));
      end->mine = {TimeWords(now())};
      end->all.resize(static_cast<size_t>(size()));
      end->times = clock_->start_all_gather(tensor_of(end->all), tensor_of(end->mine));
      lane->unknown.push_back(end);
    }
    return std::make_unique<Delayed>(moves(c), lane, end);
  }

  Request moves(const CommCall& c) {
    switch (c.kind) {
      case CommKind::all_reduce:
        return inner_->start_all_reduce(c.to, c.reduction);
      case CommKind::all_gather:
        return inner_->start_all_gather(c.to, c.from);
      case CommKind::reduce_scatter:
        return inner_->start_reduce_scatter(c.to, c.from);
      case CommKind::all_to_all:
        return inner_->start_all_to_all(c.to, c.from, c.sends, c.recvs);
      case CommKind::broadcast:
        return inner_->start_broadcast(c.to, c.peer);
      case CommKind::send:
        return inner_->start_send(c.from, c.peer);
      case CommKind::recv:
        return inner_->start_recv(c.to, c.peer);
      case CommKind::host:
        break;
    }
    throw InternalError("host values are no tensors");
  }

  void exchange(std::span<const HostMessage> messages) override { exchange_through(*inner_, messages); }
  bool host_values_travel(int64_t sent) override {
    std::this_thread::sleep_for(time_of(CommKind::host, sent));
    return true;
  }

  std::shared_ptr<Group> inner_, clock_;
  std::vector<int> ranks_;
  const CommSeconds& seconds_;
  std::shared_ptr<Lane> lane_ = std::make_shared<Lane>(), received_ = std::make_shared<Lane>();
};

class DelayedWorld final : public World {
 public:
  DelayedWorld(World& inner, CommSeconds seconds)
      : World(inner.rank(), inner.size()), inner_(inner), seconds_(std::move(seconds)) {}
  std::string_view backend() const override { return inner_.backend(); }
  void attach(Ops& ops) override { inner_.attach(ops); }
  void progress() override { inner_.progress(); }
  void disconnect() override { inner_.disconnect(); }

 private:
  std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int) override {
    return std::make_shared<DelayedGroup>(name, record(), inner_.group(name, ranks),
                                          inner_.group(name + " clock", ranks), ranks, seconds_);
  }
  std::shared_ptr<Group> make_pair(const std::string& name, const std::vector<int>& ranks, int) override {
    return std::make_shared<DelayedGroup>(name, record(), inner_.pair(name, ranks), inner_.pair(name + " clock", ranks),
                                          ranks, seconds_);
  }

  World& inner_;
  CommSeconds seconds_;
};

}  // namespace

std::unique_ptr<World> make_delayed_world(World& inner, CommSeconds seconds) {
  return std::make_unique<DelayedWorld>(inner, std::move(seconds));
}

}  // namespace fp
