// What keeps MPI going: all communications of this rank that are under way. MPI itself moves nothing while nobody calls
// it, so whoever waits for one advances them all, and no order of waiting on different groups can lock ranks up. While
// a rank computes, World::progress() stands in.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "comm/mpi/buffers.h"
#include "comm/mpi/exchange.h"

namespace fp {

// CommError "group tensor: all_reduce: " with MPI's own words, unless the call went well.
void check_mpi(int result, const std::string& what);

class MpiOperation;

class MpiEngine {
 public:
  explicit MpiEngine(int64_t largest_message) : largest_message_(largest_message) {}

  BufferPool& buffers() { return buffers_; }
  int64_t largest_message() const { return largest_message_; }  // bytes; more go in several messages

  void progress();
  // Advances everything until done() holds; soon leaves the core to others, as there may be more ranks than cores.
  void wait_until(const std::function<bool()>& done);

 private:
  friend MpiOperation;
  int64_t largest_message_;
  BufferPool buffers_;
  std::vector<MpiOperation*> under_way_;
};

// Stages of messages on a communicator, one after another.
class MpiOperation final : public Operation {
 public:
  // `tag`: of the first stage; later ones count on from there. `leases` are held until the end.
  MpiOperation(MpiEngine&, MPI_Comm, std::string what, int tag, std::vector<Stage> stages,
               std::vector<BufferPool::Lease> leases);
  ~MpiOperation() override;
  void wait() override;
  void advance();
  bool done() const { return stage_ == stages_.size() && requests_.empty(); }

 private:
  void post(const Stage&);
  bool test();

  MpiEngine& engine_;
  MPI_Comm comm_;
  std::string what_;
  int tag_;
  std::vector<Stage> stages_;
  std::vector<BufferPool::Lease> leases_;
  size_t stage_ = 0;  // to be posted next
  std::vector<MPI_Request> requests_;
  std::vector<int> awaited_;  // bytes that each request receives; -1: it sends
};

}  // namespace fp
