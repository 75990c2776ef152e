#include "cuda/runtime/cudnn_graph.h"

#include <fmt/format.h>

#include "base/error.h"

namespace fp::cuda::cudnn_api {
namespace {

void require(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[512] = "";
  cudnn().cudnnGetLastErrorString(detail, sizeof detail);
  std::string text = cudnn().cudnnGetErrorString(status);
  if (detail[0] != '\0') text += fmt::format(": {}", detail);
  throw Unsupported(text);
}

constexpr int64_t kAlignment = 16;  // alignment of every tensor in device memory, in bytes

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  require(cudnn().cudnnBackendCreateDescriptor(type, &descriptor_));
}
Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) cudnn().cudnnBackendDestroyDescriptor(descriptor_);
}
Descriptor::Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                     const void* values) {
  require(cudnn().cudnnBackendSetAttribute(descriptor_, name, type, count, values));
}
int64_t Descriptor::read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t capacity,
                         void* values) const {
  int64_t count = 0;
  require(cudnn().cudnnBackendGetAttribute(descriptor_, name, type, capacity, &count, values));
  return count;
}
void Descriptor::finalize() { require(cudnn().cudnnBackendFinalize(descriptor_)); }

Dims packed(const Dims& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

const Descriptor& Graph::describe(const Value& value, bool is_virtual, bool by_value) {
  Descriptor& t = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &value.id);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &value.type);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, value.dims.data());
  t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, value.strides.data());
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kAlignment);
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  t.finalize();
  return t;
}

Value Graph::tensor(DType dtype, const Dims& dims, const Dims& strides) {
  const cudnnDataType_t type = dtype == DType::f32    ? CUDNN_DATA_FLOAT
                               : dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16
                                                      : CUDNN_DATA_INT32;
  FP_CHECK(dtype != DType::u8, "no cuDNN tensor of bytes here");
  const Value value{static_cast<int64_t>(tensors_.size()), dims, strides, type};
  describe(value, false, false);
  return value;
}

Value Graph::constant(float number) {
  const Value value{static_cast<int64_t>(tensors_.size()), {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT};
  describe(value, false, true);
  constants_.emplace_back(value.id, number);
  return value;
}

Value Graph::intermediate(const Dims& dims, cudnnDataType_t type) { return intermediate(dims, type, packed(dims)); }

Value Graph::intermediate(const Dims& dims, cudnnDataType_t type, const Dims& strides) {
  const Value value{static_cast<int64_t>(tensors_.size()), dims, strides, type};
  describe(value, true, false);
  return value;
}

Value Graph::matmul(const Value& a, const Value& b, const Value& out) {
  Descriptor& property = properties_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  property.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  property.finalize();
  Descriptor& op = operations_.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, property);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[static_cast<size_t>(a.id)]);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[static_cast<size_t>(b.id)]);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[static_cast<size_t>(out.id)]);
  op.finalize();
  return out;
}

void Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> in, const Value& out,
                      const int64_t* axis) {
  Descriptor& property = properties_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const cudnnDataType_t compute = out.type == CUDNN_DATA_BFLOAT16 ? CUDNN_DATA_FLOAT : out.type;
  property.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  property.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis != nullptr) property.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, axis);
  property.finalize();
  Descriptor& op = operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, property);
  constexpr cudnnBackendAttributeName_t inputs[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  size_t i = 0;
  for (const Value& value : in) op.set(inputs[i++], tensors_[static_cast<size_t>(value.id)]);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[static_cast<size_t>(out.id)]);
  op.finalize();
}

Value Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> in, const Value& out) {
  pointwise(mode, in, out, nullptr);
  return out;
}

Value Graph::row_or_column(const Value& like, int64_t axis, const Value& out) {
  pointwise(CUDNN_POINTWISE_GEN_INDEX, {like}, out, &axis);
  return out;
}

Value Graph::reduce(cudnnReduceTensorOp_t mode, const Value& in, const Value& out) {
  Descriptor& property = properties_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  property.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  property.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
  property.finalize();
  Descriptor& op = operations_.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, property);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[static_cast<size_t>(in.id)]);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[static_cast<size_t>(out.id)]);
  op.finalize();
  return out;
}

Value Graph::reshape(const Value& in, const Value& out) {
  Descriptor& op = operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors_[static_cast<size_t>(in.id)]);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors_[static_cast<size_t>(out.id)]);
  op.finalize();
  return out;
}

}  // namespace fp::cuda::cudnn_api
