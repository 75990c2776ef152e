#include "model/offloaded_tensor.h"

namespace fp {

OffloadedTensor& OffloadedTensor::operator=(OffloadedTensor&& o) noexcept {
  if (this == &o) return *this;
  reset();
  env_ = o.env_;
  device_ = std::move(o.device_);
  host_ = std::move(o.host_);
  copy_ = std::exchange(o.copy_, {});
  expected_ = std::exchange(o.expected_, false);
  return *this;
}

void OffloadedTensor::wait() {
  if (copy_.number > 0) env_->ops->copies().wait(std::exchange(copy_, {}));
}

void OffloadedTensor::send(const ModelEnv& env) {
  env_ = &env;
  wait();
  FP_CHECK(env.host != nullptr, "an activation moves to host memory without an arena there");
  if (!host_) host_ = env.host->alloc(device_->dtype, device_->shape);
  copy_ = env.ops->copies().start(host_, device_);
  expected_ = false;
}

void OffloadedTensor::keep(const ModelEnv& env) {
  if (!host_) return send(env);
  expected_ = false;
}

void OffloadedTensor::release() {
  if (!host_) return;
  wait();
  device_.reset();
  expected_ = false;
}

void OffloadedTensor::depart() {
  if (!expected_) release();
}

void OffloadedTensor::fetch() {
  if (!host_) return;
  expected_ = true;
  if (device_) return;
  wait();
  device_ = env_->arena->alloc(host_->dtype, host_->shape);
  copy_ = env_->ops->copies().start(device_, host_);
}

const Tensor& OffloadedTensor::on_device() {
  fetch();
  if (copy_.lane == CopyLane::to_device) wait();
  return device_;
}

const Tensor& OffloadedTensor::keep_on_device() {
  fetch();
  wait();
  host_.reset();
  return device_;
}

ArenaTensor OffloadedTensor::take() {
  keep_on_device();
  return std::move(device_);
}

void OffloadedTensor::reset() {
  try {
    wait();
  } catch (...) {  // another error ends the run; the memory must still outlive the copy
  }
  device_.reset();
  host_.reset();
}

}  // namespace fp
