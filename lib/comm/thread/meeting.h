// Where ranks that are threads meet. Each posts its call of a communication to a Round; when all have, those who wait
// for it do its pieces, whoever comes first. So no rank depends on another's waiting, only on its starting, and a rank
// leaves when all pieces are done: then nobody touches its tensors any more.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/comm.h"

namespace fp {

// One communication. Guarded by its meeting's mutex, but for `calls` while pieces are under way.
struct Round {
  std::string group;
  CommKind kind = CommKind::host;
  std::vector<int> ranks;       // world ranks of those who take part
  std::vector<CommCall> calls;  // theirs
  std::vector<bool> posted;
  size_t missing = 0;        // who have not posted
  int next = 0, pieces = 0;  // handed out, of
  int running = 0;           // under way
  int cancelled_by = -1;     // world rank that has left before the end

  bool done() const { return missing == 0 && next == pieces && running == 0; }
};

// The rounds of a group that someone has yet to post to: by sender and receiver (-1: collective) and number.
struct OpenRounds {
  std::map<std::tuple<int, int, int64_t>, std::shared_ptr<Round>> rounds;
};

class Meeting {
 public:
  explicit Meeting(int size) : wake_(static_cast<size_t>(size)), ended_(static_cast<size_t>(size)) {}

  // The rounds of the `occurrence`th group of that name and ranks, the same object for each of its members.
  std::shared_ptr<OpenRounds> group(const std::string& name, const std::vector<int>& ranks, int occurrence);

  // Posts the call as number `place` of those who take part. CommError when a rank has failed.
  std::shared_ptr<Round> post(OpenRounds&, const std::tuple<int, int, int64_t>& key, const std::string& group,
                              const std::vector<int>& ranks, int place, const CommCall&);
  // Returns when the round is done. CommError when it never will be.
  void complete(Round&, int rank);
  // The rank leaves a round that it will not complete: its tensors are not touched from now on.
  void abandon(Round&, int rank);

  // A rank's end: in peace, or with the exception being handled.
  void end(int rank);
  void fail(int rank, const std::string& why, bool because_of_others);
  // What to throw when all have ended: the first failure that is not because of others, else the first. Null: none.
  std::exception_ptr failure() const { return first_cause_ ? first_cause_ : first_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work(Lock&, Round&);
  void leave(Lock&, Round&, int rank);
  std::string obstacle(const Round&) const;
  void wake(const Round&);

  std::mutex mutex_;
  std::vector<std::condition_variable> wake_;  // of each rank, which waits for one thing at a time
  std::vector<bool> ended_;
  std::string why_failed_;
  std::exception_ptr first_, first_cause_;
  std::map<std::tuple<std::string, std::vector<int>, int>, std::shared_ptr<OpenRounds>> groups_;
};

}  // namespace fp
