// OffloadedTensor: a tensor of training that may be in host memory while nothing uses it (memory.offload.activations).
//
// Copies run beside the ops, and none of these functions makes the host wait. A tensor that is never sent stays on the
// device, where all functions but send() then leave it.
#pragma once

#include "model/env.h"

namespace fp {

class OffloadedTensor {
 public:
  OffloadedTensor() = default;
  explicit OffloadedTensor(ArenaTensor on_device) : device_(std::move(on_device)) {}
  OffloadedTensor(OffloadedTensor&& o) noexcept { *this = std::move(o); }
  OffloadedTensor& operator=(OffloadedTensor&& o) noexcept;
  ~OffloadedTensor() { reset(); }

  explicit operator bool() const { return device_ || host_; }
  // Starts to copy it from the device to host memory. It must not change until release().
  void send(const ModelEnv&);
  // The same, unless it is in host memory and has not changed since: then only release() or depart() is due.
  void keep(const ModelEnv&);
  // Makes later ops wait for that copy, and frees the device memory. Also after fetch(), if it did not change since.
  void release();
  // Starts to copy it back, unless it is on the device: then depart() leaves it there.
  void fetch();
  // As release(), unless fetch() was called since send(): whoever fetched it will use and release it.
  void depart();
  // Makes later ops wait until it is on the device, and returns it.
  const Tensor& on_device();
  // The same, and frees the host memory.
  const Tensor& keep_on_device();
  // The same, and the tensor leaves this object.
  ArenaTensor take();
  void reset();

 private:
  void wait();

  const ModelEnv* env_ = nullptr;
  ArenaTensor device_, host_;
  CopyTicket copy_;        // under way
  bool expected_ = false;  // fetched since it was sent, and not yet released
};

// Sends tensors to host memory one after another. The device memory of one is freed when the next one is sent, so that
// ops that are issued between the two run beside the copy.
class Departures {
 public:
  void send(const ModelEnv& env, OffloadedTensor& t) {
    t.send(env);
    flush();
    last_ = &t;
  }
  // The same for a tensor that, if it was sent before, has not changed since.
  void keep(const ModelEnv& env, OffloadedTensor& t) {
    t.keep(env);
    flush();
    last_ = &t;
  }
  // Leaves the device memory of a tensor that is about to move to its user.
  void forget(const OffloadedTensor& t) {
    if (last_ == &t) last_ = nullptr;
  }
  // Frees the device memory of the last one, unless it is already wanted again.
  void flush() {
    if (last_ != nullptr) last_->depart();
    last_ = nullptr;
  }

 private:
  OffloadedTensor* last_ = nullptr;
};

}  // namespace fp
