// A communicator of NCCL. Made non-blocking: the host polls it, so an error of a peer is seen instead of waited for.
#pragma once

#include <mutex>
#include <string>

#include "comm/comm.h"
#include "cuda/runtime/library.h"

namespace fp::cuda {

class NcclComm {
 public:
  // On the current device, together with all others that have the same id. `what`: for messages, "group tensor".
  NcclComm(const ncclUniqueId& id, int rank, int size, std::string what);
  // Waits for the peers, but not on the way out of a failed run.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Puts the communication on the stream. CommError when it or an earlier one of this communicator has failed; that
  // aborts the communicator, so that no kernel of it is left waiting on the device.
  void issue(const CommCall&, cudaStream_t);
  // The asynchronous error of the communicator; empty when there is none or while a call is being issued. Thread-safe.
  std::string error_meanwhile();

 private:
  ncclResult_t put(const CommCall&, cudaStream_t);
  ncclResult_t put_all_to_all(const CommCall&, cudaStream_t);
  // What has become of a call that may still be under way.
  ncclResult_t settled(ncclResult_t);
  [[noreturn]] void fail(ncclResult_t, const char* doing);

  std::mutex mutex_;  // NCCL does not take two calls to a communicator at a time
  ncclComm_t comm_ = nullptr;
  int size_;
  std::string what_;
};

}  // namespace fp::cuda
