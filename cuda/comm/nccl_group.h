// A group of GPUs, one a rank.
//
// A send waits on the device for its receive, and holds up whatever was issued behind it. So a group has three lanes, a
// communicator and a stream each: collectives, messages to higher ranks, and messages to lower ones. Then neighbours
// that both send first do not wait for each other.
#pragma once

#include <array>
#include <memory>

#include "cuda/comm/nccl_comm.h"

namespace fp::cuda {

enum NcclLane : size_t { kCollectives, kUpwards, kDownwards, kNcclLanes };

// Ties the lanes to the computation.
class NcclStreams {
 public:
  virtual ~NcclStreams() = default;
  virtual cudaStream_t of(NcclLane) const = 0;
  // What is put on the lane from now on comes after the computation so far.
  virtual void follow_computation(NcclLane) = 0;
  // Its wait() makes the computation from then on come after what has been put on the lane before this call.
  virtual std::unique_ptr<Operation> mark(NcclLane) = 0;
};

class NcclGroup final : public Group {
 public:
  // Called by all members together. `host`: the group of the same ranks by which they find each other, and by which
  // host values travel.
  NcclGroup(const std::string& name, CommRecord& record, NcclStreams& streams, std::shared_ptr<Group> host);

 private:
  std::unique_ptr<Operation> start(const CommCall& call) override;
  void gather_bytes(std::span<std::byte> all, std::span<const std::byte> mine) override;
  NcclLane lane_of(const CommCall& call) const;

  NcclStreams& streams_;
  std::shared_ptr<Group> host_;
  std::array<std::unique_ptr<NcclComm>, kNcclLanes> comms_;
};

}  // namespace fp::cuda
