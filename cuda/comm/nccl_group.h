// A group of GPUs, one a rank.
//
// A send waits on the device for its receive, and holds up whatever was issued behind it. So each direction of a pair
// is a lane of its own, a communicator and a stream: neighbours that both send first do not wait for each other, and a
// receive posted ahead waits alone. Groups for collectives have one lane, whose stream they may share.
#pragma once

#include <memory>
#include <vector>

#include "cuda/comm/nccl_comm.h"
#include "cuda/comm/nccl_watch.h"

namespace fp::cuda {

// A stream beside the computation.
class NcclStream {
 public:
  virtual ~NcclStream() = default;
  virtual cudaStream_t get() const = 0;
  // What is put on it from now on comes after the computation so far.
  virtual void follow_computation() = 0;
  // Its wait() makes the computation from then on come after what has been put on the stream before this call.
  virtual std::unique_ptr<Operation> mark() = 0;
  // A mark for who watches; null: there is none.
  virtual std::unique_ptr<StreamMark> watched_mark() { return nullptr; }
};

class NcclGroup final : public Group {
 public:
  // Called by all members together. `streams`: one for collectives; of a pair two, for messages to the higher rank and
  // to the lower. `host`: the group of the same ranks by which they find each other, and by which host values travel.
  // `watch` outlives the group; `place` tells its lanes from those of other groups of the same name.
  NcclGroup(const std::string& name, CommRecord& record, std::vector<std::shared_ptr<NcclStream>> streams,
            std::shared_ptr<Group> host, NcclWatch* watch = nullptr, const std::string& place = "");
  ~NcclGroup() override;

  // Of a pair, by both, before its first message. NCCL connects two ranks once both have put one, and holds the host up
  // until then: no receive could be posted ahead. So each sends the other `out`, one element, which comes to `in`.
  void connect(const Tensor& out, const Tensor& in);

 private:
  struct Lane {
    std::shared_ptr<NcclStream> stream;
    std::unique_ptr<NcclComm> comm;
    std::shared_ptr<LaneProgress> progress;
  };

  std::unique_ptr<Operation> start(const CommCall& call) override;
  void exchange(std::span<const HostMessage>) override;
  Lane& lane_of(const CommCall& call);

  std::shared_ptr<Group> host_;
  std::vector<Lane> lanes_;
  NcclWatch* watch_;
};

}  // namespace fp::cuda
