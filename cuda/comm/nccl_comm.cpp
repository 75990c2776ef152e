#include "cuda/comm/nccl_comm.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <thread>

#include "base/log.h"

namespace fp::cuda {
namespace {

ncclDataType_t type_of(DType t) {
  switch (t) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
      return ncclUint8;
  }
  throw InternalError("a type unknown to NCCL");
}

size_t count_of(const Tensor& x) { return static_cast<size_t>(x.elements()); }

bool well(ncclResult_t r) { return r == ncclSuccess || r == ncclInProgress; }

std::byte* at(const Tensor& x, int64_t element) {
  return static_cast<std::byte*>(x.data) + element * static_cast<int64_t>(size_of(x.dtype));
}

}  // namespace

NcclComm::NcclComm(const ncclUniqueId& id, int rank, int size, std::string what) : size_(size), what_(std::move(what)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = wait_until_settled(nccl().ncclCommInitRankConfig(&comm_, size, id, rank, &config));
  if (result != ncclSuccess) fail(result, "set-up");
}

NcclComm::~NcclComm() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  const bool healthy =
      std::uncaught_exceptions() == 0 && wait_until_settled(nccl().ncclCommFinalize(comm_)) == ncclSuccess;
  if (healthy)
    nccl().ncclCommDestroy(comm_);
  else
    nccl().ncclCommAbort(comm_);
}

void NcclComm::issue(const CommCall& call, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) throw CommError(fmt::format("{}: {}: NCCL has failed before", what_, name_of(call.kind)));
  ncclResult_t result = wait_until_settled(ncclInProgress);
  if (result == ncclSuccess) result = wait_until_settled(put(call, stream));
  if (result != ncclSuccess) fail(result, name_of(call.kind));
}

std::string NcclComm::async_error() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || comm_ == nullptr) return {};
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = nccl().ncclCommGetAsyncError(comm_, &result);
  if (asked != ncclSuccess) result = asked;
  if (well(result)) return {};
  return fmt::format("{}: NCCL on rank {}: {}: {}", what_, log::rank(), nccl().ncclGetErrorString(result),
                     nccl().ncclGetLastError(comm_));
}

ncclResult_t NcclComm::put(const CommCall& c, cudaStream_t stream) {
  const ncclDataType_t type = type_of(c.from ? c.from.dtype : c.to.dtype);
  switch (c.kind) {
    case CommKind::all_reduce:
      return nccl().ncclAllReduce(c.from.data, c.to.data, count_of(c.to), type,
                                  c.reduction == Reduction::sum ? ncclSum : ncclMax, comm_, stream);
    case CommKind::all_gather:
      return nccl().ncclAllGather(c.from.data, c.to.data, count_of(c.from), type, comm_, stream);
    case CommKind::reduce_scatter:
      return nccl().ncclReduceScatter(c.from.data, c.to.data, count_of(c.to), type, ncclSum, comm_, stream);
    case CommKind::all_to_all:
      return put_all_to_all(c, stream);
    case CommKind::broadcast:
      return nccl().ncclBroadcast(c.from.data, c.to.data, count_of(c.to), type, c.peer, comm_, stream);
    case CommKind::send:
      return nccl().ncclSend(c.from.data, count_of(c.from), type, c.peer, comm_, stream);
    case CommKind::recv:
      return nccl().ncclRecv(c.to.data, count_of(c.to), type, c.peer, comm_, stream);
    case CommKind::host:
      break;
  }
  throw InternalError("NCCL does not carry host values");
}

// Includes this rank's own piece, which NCCL copies.
ncclResult_t NcclComm::put_all_to_all(const CommCall& c, cudaStream_t stream) {
  const ncclDataType_t type = type_of(c.from ? c.from.dtype : c.to.dtype);
  ncclResult_t result = nccl().ncclGroupStart();
  int64_t out = 0, in = 0;
  for (int r = 0; r < size_; ++r) {
    const int64_t sends = c.sends[static_cast<size_t>(r)], recvs = c.recvs[static_cast<size_t>(r)];
    if (well(result) && sends > 0)
      result = nccl().ncclSend(at(c.from, out), static_cast<size_t>(sends), type, r, comm_, stream);
    if (well(result) && recvs > 0)
      result = nccl().ncclRecv(at(c.to, in), static_cast<size_t>(recvs), type, r, comm_, stream);
    out += sends;
    in += recvs;
  }
  const ncclResult_t ended = nccl().ncclGroupEnd();
  return well(result) ? ended : result;
}

ncclResult_t NcclComm::wait_until_settled(ncclResult_t result) {
  for (int turn = 0; result == ncclInProgress; ++turn) {
    if (turn > 100) std::this_thread::sleep_for(std::chrono::microseconds(50));  // connecting takes seconds
    const ncclResult_t asked = nccl().ncclCommGetAsyncError(comm_, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

void NcclComm::fail(ncclResult_t result, const char* doing) {
  const std::string text = fmt::format("{}: {}: NCCL on rank {}: {}: {}", what_, doing, log::rank(),
                                       nccl().ncclGetErrorString(result), nccl().ncclGetLastError(comm_));
  if (comm_ != nullptr) nccl().ncclCommAbort(comm_);
  comm_ = nullptr;
  throw CommError(text);
}

}  // namespace fp::cuda
