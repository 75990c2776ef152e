// A graph of cuDNN operations and the plan that runs it, on the backend API of cuDNN 9 (cudnn_graph.h). It covers the
// part of that API that attention needs, and does not depend on attention.
//
// A Value is a tensor of the graph: one in device memory, with an id for which run() takes an address; a number held by
// the plan; or an intermediate result that need not exist in memory. All have four dimensions, with strides in
// elements.
//
// Only plans that give the same bits in every run are used.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "cuda/runtime/library.h"

namespace fp::cuda::cudnn_api {

// cuDNN does not support this graph on this device; what() is its reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One descriptor of the backend API. Throws Unsupported when a call fails.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t);
  ~Descriptor();
  Descriptor(Descriptor&&) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  void set(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.descriptor_);
  }
  // Reads an attribute, writing at most `capacity` elements. Returns the number of elements it has.
  int64_t read(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t capacity, void* values) const;
  void finalize();

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// The device that a plan is built for: that of a handle, or one that is only described (tests without a GPU).
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;  // CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
};

using Dims = std::array<int64_t, 4>;
// Returns the strides of a packed (contiguous) tensor.
Dims packed(const Dims&);

struct Value {
  int64_t id = -1;
  Dims dims{}, strides{};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};

class Plan {
 public:
  using Address =
      std::pair<int64_t, void*>;  // id of a Value and its address; a Value that is not in the graph (id -1) is skipped
  size_t workspace_bytes() const { return workspace_; }
  // Runs the plan on the stream of the handle. Throws DeviceError.
  void run(cudnnHandle_t, std::initializer_list<Address>, void* workspace) const;

 private:
  friend class Graph;
  Plan(Descriptor plan, std::vector<std::pair<int64_t, float>> constants);
  Descriptor plan_;
  std::vector<std::pair<int64_t, float>> constants_;
  size_t workspace_ = 0;
};

class Graph {
 public:
  Value tensor(DType, const Dims& dims, const Dims& strides);  // in device memory, 16-byte aligned
  Value constant(float);
  Value intermediate(const Dims&, cudnnDataType_t = CUDNN_DATA_FLOAT);
  Value intermediate(const Dims&, cudnnDataType_t, const Dims& strides);

  // Each writes `out` and returns it. Inputs of dimension 1 are broadcast. Arithmetic is in f32.
  Value matmul(const Value& a, const Value& b, const Value& out);  // over the last two dimensions
  Value pointwise(cudnnPointwiseMode_t, std::initializer_list<Value> in, const Value& out);
  Value row_or_column(const Value& like, int64_t axis, const Value& out);  // each element's index along an axis
  Value reduce(cudnnReduceTensorOp_t, const Value& in, const Value& out);
  Value reshape(const Value& in, const Value& out);  // the same elements seen with other dims and strides

  // Builds a plan for the target. Throws Unsupported when no engine can run the graph deterministically on it.
  Plan build(const Target&) const;

 private:
  const Descriptor& describe(const Value&, bool is_virtual, bool by_value);
  void pointwise(cudnnPointwiseMode_t, std::initializer_list<Value> in, const Value& out, const int64_t* axis);

  std::vector<Descriptor> tensors_;     // by id
  std::vector<Descriptor> properties_;  // pointwise, matmul and reduction descriptors that the operations refer to
  std::vector<Descriptor> operations_;
  std::vector<std::pair<int64_t, float>> constants_;
};

}  // namespace fp::cuda::cudnn_api
