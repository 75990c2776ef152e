// NCCL's groups on a Device: communication runs beside the compute stream. What it needs is ordered before it when it
// starts, and the computation that needs it is held back when it is waited for; the host waits for neither.
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
  void wait() override { done_.hold_back(compute_); }

 private:
  Event done_;
  Stream compute_;
};

class DeviceStreams final : public NcclStreams {
 public:
  explicit DeviceStreams(Device& device) : device_(device) {}
  cudaStream_t of(NcclLane lane) const override {
    return lane == kCollectives ? device_.communication() : lane == kUpwards ? upwards_.get() : downwards_.get();
  }
  void follow_computation(NcclLane lane) override { device_.order(device_.compute(), of(lane)); }
  std::unique_ptr<Operation> mark(NcclLane lane) override {
    return std::make_unique<MarkedOperation>(of(lane), device_.compute());
  }

 private:
  Device& device_;
  OwnedStream upwards_{true}, downwards_{true};
};

class NcclWorld final : public World {
 public:
  NcclWorld(World& host, Device& device)
      : World(host.rank(), host.size()), host_(host), device_(device), streams_(device) {
    nccl();  // a missing library is met here
  }
  std::string_view backend() const override { return "nccl"; }

 private:
  std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int) override {
    FP_CUDA(cudaSetDevice(device_.facts().index));
    return std::make_shared<NcclGroup>(name, record(), streams_, host_.group(name, ranks));
  }

  World& host_;
  Device& device_;
  DeviceStreams streams_;
};

}  // namespace

std::unique_ptr<World> make_nccl_world(World& host, Ops& ops) {
  auto* cuda_ops = dynamic_cast<CudaOps*>(&ops);
  FP_CHECK(cuda_ops != nullptr, "NCCL moves tensors of CUDA, not of {}", ops.name());
  return std::make_unique<NcclWorld>(host, cuda_ops->device());
}

}  // namespace fp
