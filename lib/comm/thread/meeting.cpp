#include "comm/thread/meeting.h"

#include "comm/thread/moves.h"

namespace fp {
namespace {

// Calls of at most kSmall bytes are executed by the last rank to post: waking others to help would take longer.
constexpr size_t kSmall = 16 << 10;

}  // namespace

std::shared_ptr<OpenRounds> Meeting::group(const std::string& name, const std::vector<int>& ranks, int occurrence) {
  const Lock lock(mutex_);
  std::shared_ptr<OpenRounds>& g = groups_[{name, ranks, occurrence}];
  if (!g) g = std::make_shared<OpenRounds>();
  return g;
}

std::shared_ptr<Round> Meeting::post(OpenRounds& open, const std::tuple<int, int, int64_t>& key,
                                     const std::string& group, const std::vector<int>& ranks, int place,
                                     const CommCall& call) {
  Lock lock(mutex_);
  if (!why_failed_.empty()) throw CommError(fmt::format("group {}: {}: {}", group, name_of(call.kind), why_failed_));
  std::shared_ptr<Round>& entry = open.rounds[key];
  if (!entry)
    entry = std::make_shared<Round>(Round{group, call.kind, ranks, std::vector<CommCall>(ranks.size()),
                                          std::vector<bool>(ranks.size()), ranks.size()});
  const std::shared_ptr<Round> round = entry;
  round->calls[static_cast<size_t>(place)] = call;
  round->posted[static_cast<size_t>(place)] = true;
  if (round->missing > 1) {
    --round->missing;
    return round;
  }
  open.rounds.erase(key);
  check_calls(group, round->calls);
  round->missing = 0;
  round->pieces = pieces_of(round->calls);
  if (round->calls[0].from.bytes() <= kSmall && round->cancelled_by < 0)
    while (round->next < round->pieces) move_piece(round->calls, round->next++);
  lock.unlock();  // so that those who wake do not wait for it
  wake(*round);
  return round;
}

void Meeting::complete(Round& round, int rank) {
  Lock lock(mutex_);
  while (!round.done()) {
    if (round.missing == 0 && round.next < round.pieces && round.cancelled_by < 0) {
      work(lock, round);
    } else if (const std::string why = obstacle(round); !why.empty()) {
      leave(lock, round, rank);
      throw CommError(fmt::format("group {}: {}: {}", round.group, name_of(round.kind), why));
    } else {
      wake_[static_cast<size_t>(rank)].wait(lock);
    }
  }
}

void Meeting::abandon(Round& round, int rank) {
  Lock lock(mutex_);
  if (!round.done()) leave(lock, round, rank);
}

void Meeting::end(int rank) {
  const Lock lock(mutex_);
  ended_[static_cast<size_t>(rank)] = true;
  for (std::condition_variable& w : wake_) w.notify_one();
}

void Meeting::fail(int rank, const std::string& why, bool because_of_others) {
  {
    const Lock lock(mutex_);
    if (why_failed_.empty()) why_failed_ = fmt::format("rank {} failed: {}", rank, why);
    if (!first_) first_ = std::current_exception();
    if (!first_cause_ && !because_of_others) first_cause_ = std::current_exception();
  }
  end(rank);
}

void Meeting::work(Lock& lock, Round& round) {
  const int piece = round.next++;
  ++round.running;
  lock.unlock();
  move_piece(round.calls, piece);
  lock.lock();
  --round.running;
  if (round.running == 0 && (round.next == round.pieces || round.cancelled_by >= 0)) wake(round);
}

void Meeting::leave(Lock& lock, Round& round, int rank) {
  if (round.cancelled_by < 0) round.cancelled_by = rank;
  wake_[static_cast<size_t>(rank)].wait(lock, [&] { return round.running == 0; });
}

// Returns why the round can no longer be done; empty: it can.
std::string Meeting::obstacle(const Round& round) const {
  if (!why_failed_.empty()) return why_failed_;
  for (size_t i = 0; i < round.ranks.size(); ++i) {
    const int r = round.ranks[i];
    if (ended_[static_cast<size_t>(r)] && (!round.posted[i] || round.cancelled_by == r))
      return fmt::format("rank {} ended without taking part", r);
  }
  return {};
}

void Meeting::wake(const Round& round) {
  for (const int r : round.ranks) wake_[static_cast<size_t>(r)].notify_one();
}

}  // namespace fp
