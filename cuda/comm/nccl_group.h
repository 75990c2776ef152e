// A group of ranks with one GPU each.
//
// A send waits on the device for its receive and blocks everything issued after it on its stream. So each direction of
// a pair is a lane of its own, with its own communicator and stream: neighbours that both send first do not wait for
// each other, and a receive posted ahead blocks nothing else. Groups for collectives have one lane, whose stream they
// may share. All ranks must issue the collectives of all groups in the same order; otherwise kernels on several streams
// of a device that wait for their peers could deadlock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/comm/nccl_comm.h"
#include "cuda/comm/nccl_watch.h"

namespace fp::cuda {

// A stream that runs concurrently with the computation.
class NcclStream {
 public:
  virtual ~NcclStream() = default;
  virtual cudaStream_t get() const = 0;
  // Makes everything enqueued on this stream from now on wait for the computation issued so far.
  virtual void follow_computation() = 0;
  // Marks the work enqueued on the stream so far. wait() of the result makes later computation wait for it.
  virtual std::unique_ptr<Operation> mark() = 0;
  // A mark that NcclWatch can poll; null: not supported.
  virtual std::unique_ptr<StreamMark> watched_mark() { return nullptr; }
};

// How soon the computation waits for the collectives of a group: `urgent` for those within a layer, between the ranks
// that compute it together; `patient` for gradients and weights, which overlap with the computation of other layers.
enum class Urgency : uint8_t { urgent, patient };
Urgency urgency_of(std::string_view group);

// Streams for collectives: one for each purpose of groups, so that those within a layer do not queue behind gradients.
// Groups of the same purpose share a stream.
class CollectiveStreams {
 public:
  using Make = std::function<std::shared_ptr<NcclStream>(Urgency)>;
  explicit CollectiveStreams(Make make) : make_(std::move(make)) {}
  std::shared_ptr<NcclStream> of(const std::string& group);

 private:
  Make make_;
  std::map<std::string, std::shared_ptr<NcclStream>> streams_;
};

class NcclGroup final : public Group {
 public:
  // Called by all members together. `streams`: one for collectives; two for a pair, for messages to the higher rank and
  // to the lower rank. `host`: a group of the same ranks over which the communicators are set up and host values
  // travel. `watch` (may be null) must outlive the group; `place` tells its lanes from those of other groups of the
  // same name.
  NcclGroup(const std::string& name, CommRecord& record, std::vector<std::shared_ptr<NcclStream>> streams,
            std::shared_ptr<Group> host, NcclWatch* watch = nullptr, const std::string& place = "");
  ~NcclGroup() override;

  // Connects a pair; called by both ranks before the first message. NCCL connects two ranks when both have enqueued a
  // message and blocks the host until then, so no receive could be posted ahead. Therefore each sends the other `out`,
  // one element, and receives it in `in`.
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
