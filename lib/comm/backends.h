// Factories of the worlds that communicate. Only apps/ and tests/ name them.
#pragma once

#include <functional>
#include <memory>

#include "comm/comm.h"

namespace fp {

// Ranks as threads of this process: calls body(world of the rank) on `size` threads and waits for all. When one throws,
// the others get CommError in whatever they communicate next or are waiting in, and the first exception (of the
// failing rank, not a CommError) is thrown again here. Tensors live on the host.
void run_thread_ranks(int size, const std::function<void(World&)>& body);

// The ranks mpirun or srun has started, over Open MPI. Made once a process; MPI is finalized with it. Sums are taken on
// the host; tensors of a device are staged through host memory. largest_message: bytes; what is larger goes in several.
std::unique_ptr<World> make_mpi_world(int64_t largest_message = int64_t{1} << 30);

// NVIDIA GPUs over NCCL, one rank a GPU: tensors are those of `cuda` (made by make_cuda_ops) and move beside its
// computation. Communicators and host values come about over `host`, a world of the same ranks. Both must outlive it.
// Ranks that share several groups start communications on them in the same order: they share a stream (pairs do not).
// ConfigError in a build without CUDA and where there is no NCCL.
std::unique_ptr<World> make_nccl_world(World& host, Ops& cuda);

}  // namespace fp
