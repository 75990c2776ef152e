// Rendezvous of ranks that are threads. Each rank posts its call of a communication to a Round. When all have posted,
// the ranks that wait for the round execute its pieces, first come first served. So a rank depends on the others
// starting a communication, not on their waiting for it; it leaves when all pieces are done and its tensors are no
// longer touched.
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

// One communication. Guarded by the mutex of its Meeting, except for `ranks`, which do not change, and for `calls`
// while pieces are being executed.
struct Round {
  std::string group;
  CommKind kind = CommKind::host;
  std::vector<int> ranks;       // world ranks of the participants
  std::vector<CommCall> calls;  // their calls, in the same order
  std::vector<bool> posted;
  size_t missing = 0;        // participants that have not posted
  int next = 0, pieces = 0;  // next piece to execute, and number of pieces
  int running = 0;           // pieces being executed
  int cancelled_by = -1;     // world rank that left before the end; -1: none

  bool done() const { return missing == 0 && next == pieces && running == 0; }
};

// The rounds of a group to which a rank has yet to post, by (sender, receiver, number); collectives have -1 for sender
// and receiver.
struct OpenRounds {
  std::map<std::tuple<int, int, int64_t>, std::shared_ptr<Round>> rounds;
};

class Meeting {
 public:
  explicit Meeting(int size) : wake_(static_cast<size_t>(size)), ended_(static_cast<size_t>(size)) {}

  // Returns the open rounds of the `occurrence`th group of that name and ranks: the same object for each of its
  // members.
  std::shared_ptr<OpenRounds> group(const std::string& name, const std::vector<int>& ranks, int occurrence);

  // Posts the call of participant number `place`. Throws CommError when a rank has failed.
  std::shared_ptr<Round> post(OpenRounds&, const std::tuple<int, int, int64_t>& key, const std::string& group,
                              const std::vector<int>& ranks, int place, const CommCall&);
  // Returns when the round is done. Throws CommError when it can no longer be.
  void complete(Round&, int rank);
  // Takes the rank out of a round that it will not complete: its tensors are not touched from then on.
  void abandon(Round&, int rank);

  // Records the end of a rank: normally, or with the exception that is being handled.
  void end(int rank);
  void fail(int rank, const std::string& why, bool because_of_others);
  // The exception to rethrow when all ranks have ended: the first that was not caused by another rank's failure, else
  // the first. Null: none.
  std::exception_ptr failure() const { return first_cause_ ? first_cause_ : first_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work(Lock&, Round&);
  void leave(Lock&, Round&, int rank);
  std::string obstacle(const Round&) const;
  void wake(const Round&);

  std::mutex mutex_;
  std::vector<std::condition_variable> wake_;  // by rank; a rank waits for one thing at a time
  std::vector<bool> ended_;
  std::string why_failed_;
  std::exception_ptr first_, first_cause_;
  std::map<std::tuple<std::string, std::vector<int>, int>, std::shared_ptr<OpenRounds>> groups_;
};

}  // namespace fp
