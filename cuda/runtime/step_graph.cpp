#include "cuda/runtime/step_graph.h"

#include <type_traits>

#include "base/error.h"
#include "cuda/runtime/check.h"

namespace fp::cuda {
namespace {

struct Destroy {
  void operator()(cudaGraph_t g) const { cudaGraphDestroy(g); }
  void operator()(cudaGraphExec_t g) const { cudaGraphExecDestroy(g); }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

}  // namespace

struct StepGraph::State {
  Device& device;
  Executable executable;
  bool recording = false;

  // Whether the executable now runs `graph`.
  bool update(const Graph& graph) {
    if (executable == nullptr) return false;
    cudaGraphExecUpdateResultInfo result{};
    if (cudaGraphExecUpdate(executable.get(), graph.get(), &result) == cudaSuccess) return true;
    (void)cudaGetLastError();  // another topology: not a failure
    return false;
  }
};

StepGraph::StepGraph(Device& device) : state_(new State{device, nullptr, false}) {}
StepGraph::~StepGraph() { abandon(); }

void StepGraph::begin() {
  FP_CHECK(!state_->recording, "a step is being recorded already");
  FP_CUDA(cudaStreamBeginCapture(state_->device.compute(), cudaStreamCaptureModeThreadLocal));
  state_->recording = true;
}

void StepGraph::end() {
  FP_CHECK(state_->recording, "no step is being recorded");
  state_->recording = false;
  cudaGraph_t captured = nullptr;
  FP_CUDA(cudaStreamEndCapture(state_->device.compute(), &captured));
  const Graph graph(captured);
  if (state_->update(graph)) return;
  state_->executable.reset();
  cudaGraphExec_t made = nullptr;
  FP_CUDA(cudaGraphInstantiate(&made, graph.get(), 0));
  state_->executable.reset(made);
}

void StepGraph::abandon() noexcept {
  if (!state_->recording) return;
  state_->recording = false;
  cudaGraph_t captured = nullptr;
  if (cudaStreamEndCapture(state_->device.compute(), &captured) == cudaSuccess && captured != nullptr)
    cudaGraphDestroy(captured);
  (void)cudaGetLastError();
}

bool StepGraph::recorded() const { return state_->executable != nullptr; }

void StepGraph::launch() {
  FP_CHECK(recorded(), "no step has been recorded");
  FP_CUDA(cudaGraphLaunch(state_->executable.get(), state_->device.compute()));
}

}  // namespace fp::cuda
