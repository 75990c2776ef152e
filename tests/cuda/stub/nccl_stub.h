// Test interface of the libnccl in nccl_stub.cpp, beside NCCL's own.
#pragma once

#include <nccl.h>

#include <cstdint>

extern "C" {
// Creates a stream, which runs its work in order on a thread of its own.
cudaStream_t nccl_stub_stream();
// nccl_stub_mark() marks the work put on the stream so far; nccl_stub_wait() returns when the marked work is done.
uint64_t nccl_stub_mark(cudaStream_t);
void nccl_stub_wait(cudaStream_t, uint64_t mark);
// Makes the next communication put on any stream fail with ncclRemoteError.
void nccl_stub_fail_next();
int nccl_stub_aborted();  // number of communicators aborted so far
}
