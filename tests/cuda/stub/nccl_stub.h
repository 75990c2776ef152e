// What a test may ask of the libnccl of nccl_stub.cpp besides NCCL's own interface.
#pragma once

#include <nccl.h>

#include <cstdint>

extern "C" {
// A stream runs what is put on it in order, beside the caller.
cudaStream_t nccl_stub_stream();
// What has been put on the stream so far; and returns when that is done.
uint64_t nccl_stub_mark(cudaStream_t);
void nccl_stub_wait(cudaStream_t, uint64_t mark);
// The next communication put on any stream fails with ncclRemoteError.
void nccl_stub_fail_next();
int nccl_stub_aborted();  // communicators so far
}
