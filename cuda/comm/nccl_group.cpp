#include "cuda/comm/nccl_group.h"

#include <fmt/format.h>

#include <cstring>

namespace fp::cuda {

NcclGroup::NcclGroup(const std::string& name, CommRecord& record, NcclStreams& streams, std::shared_ptr<Group> host)
    : Group(name, host->rank(), host->size(), record), streams_(streams), host_(std::move(host)) {
  std::array<ncclUniqueId, kNcclLanes> ids{};
  std::string bytes(sizeof(ids), '\0');
  if (rank() == 0) {
    for (ncclUniqueId& id : ids)
      if (nccl().ncclGetUniqueId(&id) != ncclSuccess)
        throw CommError(fmt::format("group {}: NCCL: {}", name, nccl().ncclGetLastError(nullptr)));
    std::memcpy(bytes.data(), ids.data(), sizeof(ids));
  }
  bytes = host_->broadcast(bytes, 0);
  std::memcpy(ids.data(), bytes.data(), sizeof(ids));
  for (size_t lane = 0; lane < kNcclLanes; ++lane)
    comms_[lane] = std::make_unique<NcclComm>(ids[lane], rank(), size(), "group " + name);
}

std::unique_ptr<Operation> NcclGroup::start(const CommCall& call) {
  const NcclLane lane = lane_of(call);
  streams_.follow_computation(lane);
  comms_[lane]->issue(call, streams_.of(lane));
  return streams_.mark(lane);
}

void NcclGroup::gather_bytes(std::span<std::byte> all, std::span<const std::byte> mine) {
  gather_through(*host_, all, mine);
}

NcclLane NcclGroup::lane_of(const CommCall& call) const {
  if (call.kind == CommKind::send) return call.peer > rank() ? kUpwards : kDownwards;
  if (call.kind == CommKind::recv) return call.peer < rank() ? kUpwards : kDownwards;
  return kCollectives;
}

}  // namespace fp::cuda
