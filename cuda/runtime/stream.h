// Owning CUDA streams and events. A stream runs its work in order; events order work of different streams without the
// host waiting.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/runtime/check.h"

namespace fp::cuda {

enum class StreamPriority : uint8_t { lowest, middle, highest };

class OwnedStream {
 public:
  // Creates a stream on the current device that never waits for the default stream.
  explicit OwnedStream(StreamPriority priority = StreamPriority::lowest) {
    int least = 0, greatest = 0;  // greater priorities are lower numbers
    FP_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    const int middle = least + (greatest - least) / 2;
    FP_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                         priority == StreamPriority::lowest   ? least
                                         : priority == StreamPriority::middle ? middle
                                                                              : greatest));
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
  // Makes work issued on the stream from now on wait for the mark.
  void make_wait(cudaStream_t stream) const { FP_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
  // Returns whether the device has reached the mark; also true when the query fails.
  bool reached() const {
    const cudaError_t answer = cudaEventQuery(event_);
    if (answer != cudaSuccess) (void)cudaGetLastError();  // clears it, so that the next launch does not report it
    return answer != cudaErrorNotReady;
  }
  // The host waits for the mark; returns at once when there is none.
  void synchronize() const { FP_CUDA(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace fp::cuda
