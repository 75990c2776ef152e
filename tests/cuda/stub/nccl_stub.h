// What a test may ask of the libnccl of nccl_stub.cpp besides NCCL's own interface.
#pragma once

#include <nccl.h>

extern "C" {
// A stream runs what is put on it in order, beside the caller.
cudaStream_t nccl_stub_stream();
// Returns when what has been put on the stream before is done.
void nccl_stub_synchronize(cudaStream_t);
// The next communication put on any stream fails with ncclRemoteError.
void nccl_stub_fail_next();
int nccl_stub_aborted();  // communicators so far
}
