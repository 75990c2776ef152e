// Test interface of the libnccl in nccl_stub.cpp, beside NCCL's own.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

extern "C" {
// Creates a stream, which runs its work in order on a thread of its own.
cudaStream_t nccl_stub_stream();
// nccl_stub_mark() marks the work put on the stream so far; nccl_stub_wait() returns when the marked work is done.
uint64_t nccl_stub_mark(cudaStream_t);
void nccl_stub_wait(cudaStream_t, uint64_t mark);
// A call put on a stream, by any rank of the process.
struct nccl_stub_call {
  uint64_t thread;  // which thread made it
  cudaStream_t stream;
  int communicator;  // the same number on all of its ranks
  const char* kind;
  size_t elements;  // that it was given; 0 for several at once
};
// Copies the calls made since the last nccl_stub_forget_calls(), in their order, and returns their number. At most
// `most` are copied.
size_t nccl_stub_calls(nccl_stub_call* out, size_t most);
void nccl_stub_forget_calls();
// Makes the next communication put on any stream fail with ncclRemoteError.
void nccl_stub_fail_next();
int nccl_stub_aborted();  // number of communicators aborted so far
}
