// NCCL groups on a Device: communication runs on streams beside the compute stream. A communication waits, on the
// device, for the computation before its start; wait() makes later computation wait for it. The host waits for neither.
#include "comm/backends.h"
#include "cuda/comm/nccl_group.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/runtime/stream.h"

namespace fp {
namespace {

using namespace cuda;

class MarkedOperation final : public Operation {
 public:
  MarkedOperation(Stream lane, Stream compute) : compute_(compute) { done_.record(lane); }
  void wait() override { done_.make_wait(compute_); }

 private:
  Event done_;
  Stream compute_;
};

class WatchedEvent final : public StreamMark {
 public:
  explicit WatchedEvent(Stream lane) { event_.record(lane); }
  bool reached() const override { return event_.reached(); }

 private:
  Event event_;
};

class DeviceStream final : public NcclStream {
 public:
  DeviceStream(Device& device, StreamPriority priority) : device_(device), stream_(priority) {}
  cudaStream_t get() const override { return stream_.get(); }
  void follow_computation() override { device_.order(device_.compute(), get()); }
  std::unique_ptr<Operation> mark() override { return std::make_unique<MarkedOperation>(get(), device_.compute()); }
  std::unique_ptr<StreamMark> watched_mark() override { return std::make_unique<WatchedEvent>(get()); }

 private:
  Device& device_;
  OwnedStream stream_;
};

// A group without a communicator.
class HostValues final : public Group {
 public:
  HostValues(const std::string& name, CommRecord& record, std::shared_ptr<Group> host)
      : Group(name, host->rank(), host->size(), record), host_(std::move(host)) {}

 private:
  void exchange(std::span<const HostMessage> messages) override { exchange_through(*host_, messages); }

  std::shared_ptr<Group> host_;
};

class NcclWorld final : public World {
 public:
  NcclWorld(World& host, Device& device)
      : World(host.rank(), host.size()),
        host_(host),
        device_(device),
        collectives_([this](Urgency u) {
          return std::make_shared<DeviceStream>(
              device_, u == Urgency::urgent ? StreamPriority::highest : StreamPriority::middle);
        }),
        watch_(record(), [index = device.facts().index] { cudaSetDevice(index); }) {
    nccl();  // throws here when the library is missing
  }
  std::string_view backend() const override { return "nccl"; }

 private:
  using Streams = std::vector<std::shared_ptr<NcclStream>>;

  std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int) override {
    FP_CUDA(cudaSetDevice(device_.facts().index));
    return std::make_shared<NcclGroup>(name, record(), Streams{collectives_.of(name)}, host_.group(name, ranks),
                                       &watch_, fmt::format("@{}", ranks.front()));
  }
  std::shared_ptr<Group> make_host_group(const std::string& name, const std::vector<int>& ranks, int) override {
    return std::make_shared<HostValues>(name, record(), host_.host_group(name, ranks));
  }
  std::shared_ptr<Group> make_pair(const std::string& name, const std::vector<int>& ranks, int) override {
    FP_CUDA(cudaSetDevice(device_.facts().index));
    Streams lanes;
    for (int i = 0; i < 2; ++i) lanes.push_back(std::make_shared<DeviceStream>(device_, StreamPriority::highest));
    auto pair = std::make_shared<NcclGroup>(name, record(), std::move(lanes), host_.pair(name, ranks), &watch_,
                                            fmt::format("@{}-{}", ranks.front(), ranks.back()));
    if (!scratch_) scratch_ = device_.allocate(2 * sizeof(float));
    auto* element = reinterpret_cast<float*>(scratch_.get());
    pair->connect({element, DType::f32, {1}}, {element + 1, DType::f32, {1}});
    return pair;
  }

  World& host_;
  Device& device_;
  CollectiveStreams collectives_;
  std::shared_ptr<std::byte> scratch_;  // for the messages by which pairs connect
  NcclWatch watch_;
};

}  // namespace

std::unique_ptr<World> make_nccl_world(World& host, Ops& ops) {
  auto* cuda_ops = dynamic_cast<CudaOps*>(&ops);
  FP_CHECK(cuda_ops != nullptr, "NCCL moves tensors of CUDA, not of {}", ops.name());
  return std::make_unique<NcclWorld>(host, cuda_ops->device());
}

}  // namespace fp
