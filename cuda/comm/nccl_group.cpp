#include "cuda/comm/nccl_group.h"

#include <fmt/format.h>

#include <cstring>

namespace fp::cuda {

Urgency urgency_of(std::string_view group) {
  return group == "tensor" || group == "sequence" ? Urgency::urgent : Urgency::patient;
}

std::shared_ptr<NcclStream> CollectiveStreams::of(const std::string& group) {
  std::shared_ptr<NcclStream>& stream = streams_[group];
  if (!stream) stream = make_(urgency_of(group));
  return stream;
}

NcclGroup::NcclGroup(const std::string& name, CommRecord& record, std::vector<std::shared_ptr<NcclStream>> streams,
                     std::shared_ptr<Group> host, NcclWatch* watch, const std::string& place)
    : Group(name, host->rank(), host->size(), record), host_(std::move(host)), watch_(watch) {
  std::vector<ncclUniqueId> ids(streams.size());
  std::string bytes(ids.size() * sizeof(ncclUniqueId), '\0');
  if (rank() == 0) {
    for (ncclUniqueId& id : ids)
      if (nccl().ncclGetUniqueId(&id) != ncclSuccess)
        throw CommError(fmt::format("group {}: NCCL: {}", name, nccl().ncclGetLastError(nullptr)));
    std::memcpy(bytes.data(), ids.data(), bytes.size());
  }
  bytes = host_->broadcast(bytes, 0);
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    auto comm = std::make_unique<NcclComm>(ids[i], rank(), size(), "group " + name);
    const std::string lane = name + place + (ids.size() == 1 ? "" : i == 0 ? " up" : " down");
    auto progress = std::make_shared<LaneProgress>(lane, [c = comm.get()] { return c->async_error(); });
    lanes_.push_back({std::move(streams[i]), std::move(comm), std::move(progress)});
  }
  // Registered only when all lanes exist: if creating one fails, no destructor runs to remove them.
  if (watch_ == nullptr) return;
  for (const Lane& lane : lanes_) watch_->add(lane.progress);
}

NcclGroup::~NcclGroup() {
  if (watch_ == nullptr) return;
  for (const Lane& lane : lanes_) watch_->remove(lane.progress.get());
}

void NcclGroup::connect(const Tensor& out, const Tensor& in) {
  const CommCall send{CommKind::send, {}, out, Reduction::sum, 1 - rank(), {}, {}};
  const CommCall recv{CommKind::recv, in, {}, Reduction::sum, 1 - rank(), {}, {}};
  start(rank() == 0 ? send : recv)->wait();  // both begin with the lane to the higher rank
  start(rank() == 0 ? recv : send)->wait();
}

std::unique_ptr<Operation> NcclGroup::start(const CommCall& call) {
  const Lane& lane = lane_of(call);
  lane.stream->follow_computation();
  lane.comm->issue(call, lane.stream->get());
  if (watch_ != nullptr) lane.progress->issued(lane.stream->watched_mark());
  return lane.stream->mark();
}

void NcclGroup::exchange(std::span<const HostMessage> messages) { exchange_through(*host_, messages); }

NcclGroup::Lane& NcclGroup::lane_of(const CommCall& call) {
  const bool downwards =
      (call.kind == CommKind::send && call.peer < rank()) || (call.kind == CommKind::recv && call.peer > rank());
  return downwards ? lanes_.back() : lanes_.front();
}

}  // namespace fp::cuda
