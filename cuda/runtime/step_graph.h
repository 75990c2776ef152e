// A training step as a CUDA graph: what is issued between begin() and end() is recorded instead of run, and launch()
// then starts all of it with one call. Worth it where a step is many short kernels.
//
// Recording covers the compute stream and every stream ordered after it (and back) by Device::order(). Between begin()
// and end() nothing may wait for the device or allocate: no copy_in(), copy_out(), synchronize(), reserve_scratch().
// Addresses are recorded, so a step's buffers must stay where they are.
#pragma once

#include <memory>

#include "cuda/runtime/device.h"

namespace fp::cuda {

class StepGraph {
 public:
  explicit StepGraph(Device&);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  void begin();
  // A later recording of the same kernels updates the graph in place; another one is built anew.
  void end();
  // Ends a recording that an exception broke off; the graph of before stays.
  void abandon() noexcept;
  bool recorded() const;
  // On the compute stream.
  void launch();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fp::cuda
