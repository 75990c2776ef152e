// An NCCL communicator. It is non-blocking: the host polls it, so that an error of a peer is noticed instead of waited
// for.
#pragma once

#include <mutex>
#include <string>

#include "comm/comm.h"
#include "cuda/runtime/library.h"

namespace fp::cuda {

class NcclComm {
 public:
  // Creates the communicator on the current device, together with all other ranks that have the same id. `what` names
  // it in messages: "group tensor".
  NcclComm(const ncclUniqueId& id, int rank, int size, std::string what);
  // Waits for the peers, except on the way out of a failed run.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Enqueues the communication on the stream. Throws CommError when it or an earlier one of this communicator has
  // failed, and then aborts the communicator, so that none of its kernels is left waiting on the device.
  void issue(const CommCall&, cudaStream_t);
  // Returns the asynchronous error of the communicator; empty when there is none and while a call is being issued.
  // Thread-safe.
  std::string async_error();

 private:
  ncclResult_t put(const CommCall&, cudaStream_t);
  ncclResult_t put_all_to_all(const CommCall&, cudaStream_t);
  // Polls until a call is no longer in progress, and returns its result.
  ncclResult_t wait_until_settled(ncclResult_t);
  [[noreturn]] void fail(ncclResult_t, const char* doing);

  std::mutex mutex_;  // NCCL does not allow concurrent calls on a communicator
  ncclComm_t comm_ = nullptr;
  int size_;
  std::string what_;
};

}  // namespace fp::cuda
