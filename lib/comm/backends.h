// Factories of the World implementations. Only apps/ and tests/ name concrete ones.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "comm/comm.h"

namespace fp {

// Runs ranks as threads of this process: calls body(world of the rank) on `size` threads and waits for all of them.
// When one throws, the others get CommError from the communication they are in or start next, and the first exception
// (of the failing rank, not a CommError) is rethrown here. Tensors live on the host.
void run_thread_ranks(int size, const std::function<void(World&)>& body);

// The ranks that mpirun or srun has started, over Open MPI. Created at most once per process; its destructor finalizes
// MPI. Sums are computed on the host; tensors of a device are staged through host memory. Data of more than
// `largest_message` bytes is sent as several messages.
std::unique_ptr<World> make_mpi_world(int64_t largest_message = int64_t{1} << 30);

// Returns the seconds that a communication takes, in which each of these world ranks sends `sent` bytes, in an
// all-to-all perhaps as uneven pieces.
using CommSeconds = std::function<double(CommKind, std::span<const int> ranks, int64_t sent, const UnevenPieces&)>;
// Wraps a world whose tensors are on the host and emulates slow links: the communications of a group run one after
// another, and each ends `seconds` after the last rank has started it. The delay uses no CPU time, so a step shows how
// much of its communication overlaps with computation. `inner` must outlive the result.
std::unique_ptr<World> make_delayed_world(World& inner, CommSeconds seconds);

// NVIDIA GPUs over NCCL, one GPU per rank. Tensors are those of `cuda` (from make_cuda_ops) and are transferred while
// it computes. `host`, a world of the same ranks, sets up the communicators and carries host values. Both must outlive
// the result. Ranks that have several groups in common must start communications on them in the same order, because
// groups of one purpose share a stream (pairs do not). Throws ConfigError in a build without CUDA and where NCCL is
// missing.
std::unique_ptr<World> make_nccl_world(World& host, Ops& cuda);

}  // namespace fp
