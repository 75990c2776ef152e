// Streams and events as owned objects. A stream runs what is issued on it in order; events order streams among each
// other without the host waiting.
#pragma once

#include <utility>

#include "cuda/runtime/check.h"

namespace fp::cuda {

class OwnedStream {
 public:
  // On the current device; never waits for the default stream. `urgent`: its blocks go first.
  explicit OwnedStream(bool urgent = false) {
    int least = 0, greatest = 0;
    FP_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    FP_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least));
  }
  ~OwnedStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { FP_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Marks what has been issued on the stream so far.
  void record(cudaStream_t stream) { FP_CUDA(cudaEventRecord(event_, stream)); }
  // Whatever is issued on the stream from now on comes after the mark.
  void hold_back(cudaStream_t stream) const { FP_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
  // Whether the device has come to the mark; also when asking fails, as then nothing is known.
  bool reached() const {
    const cudaError_t answer = cudaEventQuery(event_);
    if (answer != cudaSuccess) (void)cudaGetLastError();  // an answer is no error of the next launch
    return answer != cudaErrorNotReady;
  }
  // The host waits for the mark; returns at once when there is none.
  void synchronize() const { FP_CUDA(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace fp::cuda
