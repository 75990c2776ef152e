// The progress engine of the MPI world: all communications of this rank that are in flight. MPI moves data only inside
// calls, so a wait for one communication advances all of them, and no order of waiting on different groups can
// deadlock. While a rank computes, World::progress() advances them.
#pragma once

#include <mpi.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/mpi/buffers.h"
#include "comm/mpi/exchange.h"

namespace fp {

// Throws CommError unless `result` is MPI_SUCCESS. The message is `what` ("group tensor: all_reduce") and MPI's error
// text.
void check_mpi(int result, const std::string& what);

class MpiOperation;

class MpiEngine {
 public:
  // The calling thread is the one that waits.
  explicit MpiEngine(int64_t largest_message);

  BufferPool& buffers() { return buffers_; }
  int64_t largest_message() const { return largest_message_; }  // in bytes; longer data takes several messages

  // Advances all operations in flight, without waiting.
  void progress();
  // Advances all operations until done() returns true. After a short time it yields the core between two polls, as
  // there may be more ranks than cores, or other programs.
  void wait_until(const std::function<bool()>& done);

 private:
  friend MpiOperation;
  void yield_core();

  int64_t largest_message_;
  BufferPool buffers_;
  std::vector<MpiOperation*> under_way_;
  std::chrono::steady_clock::time_point core_is_shared_until_{};  // according to the last slow yield
};

// A communication on one communicator, executed as phases of messages one after another.
class MpiOperation final : public Operation {
 public:
  // `tag` is that of the first phase; each later phase uses the next one. `buffers` are held until the end.
  MpiOperation(MpiEngine&, MPI_Comm, std::string what, int tag, std::vector<ExchangePhase> phases,
               std::vector<BufferPool::Handle> buffers);
  ~MpiOperation() override;
  void wait() override;
  void advance();
  bool done() const { return next_phase_ == phases_.size() && requests_.empty(); }

 private:
  void post(const ExchangePhase&);
  bool test();

  MpiEngine& engine_;
  MPI_Comm comm_;
  std::string what_;
  int tag_;
  std::vector<ExchangePhase> phases_;
  std::vector<BufferPool::Handle> held_;
  size_t next_phase_ = 0;  // index of the next phase to post
  std::vector<MPI_Request> requests_;
  std::vector<int> awaited_;  // bytes that each request receives; -1: a send
};

}  // namespace fp
