// Ops: the device interface. All arithmetic of a model goes through it. An implementation owns one device and never
// communicates. Calls are issued in order and may run asynchronously until synchronize(). Results do not depend on the
// number of threads.
//
// An op is one line of base/op_list.h and one struct of ops/calls, which says what it computes:
//   ops.linear({y, x, w, bias}), ops.linear_backward_weight({.dw = dw, .dy = dy, .x = x, .write = Write::add}).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/calls/attention.h"
#include "ops/calls/checksums.h"
#include "ops/calls/copies.h"
#include "ops/calls/elementwise.h"
#include "ops/calls/embedding.h"
#include "ops/calls/heads.h"
#include "ops/calls/losses.h"
#include "ops/calls/norms.h"
#include "ops/calls/optimizer.h"
#include "ops/calls/products.h"
#include "ops/calls/quantization.h"
#include "ops/copies.h"

namespace fp {

// Memory of a device in bytes: used by all processes, and available.
struct DeviceMemory {
  size_t used = 0, available = 0;
};

// Receives every call of an Ops, in order. `op`: its name. `works`: its work, or those of the parts of a fused op.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void starts(std::string_view /*op*/) {}
  virtual void ended(std::string_view op, std::span<const OpWork> works) = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string_view name() const = 0;
  // Whether it only counts calls: the addresses of tensors must not be accessed.
  virtual bool dry() const { return false; }

  // ---- the device: not for use inside a step ------------------------------------------------------------------------
  // Allocates uninitialised memory for tensors, aligned to 256 bytes and freed with its last owner. Throws ConfigError
  // when there is not enough. huge_pages has an effect only where the device is the host.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes, bool huge_pages = true);
  // The same in host memory, of which the device copies asynchronously (pinned where there is a device).
  virtual std::shared_ptr<std::byte> allocate_host(size_t bytes, bool huge_pages = true);
  // Memory of the device that allocate() takes from; nullopt: that is the host's memory.
  virtual std::optional<DeviceMemory> device_memory() const { return std::nullopt; }
  // Identifies the device among all devices of its machine; empty: the host itself.
  virtual std::string device_id() const { return {}; }
  // Returns the bytes of scratch that a call needs with the calling thread's number of threads. Its tensors need not be
  // in memory. 0: none beyond what own_bytes(0) counts.
#define FP_OP(Call, name) \
  virtual size_t scratch_of(const calls::Call&) const { return 0; }
  FP_UNFUSED_OPS(FP_OP)
#undef FP_OP
  // Reserves scratch for the calls to come, so that they allocate nothing.
  virtual void reserve_scratch(size_t /*bytes*/) {}
  // Bytes that the backend holds beside tensors, with `scratch` bytes of scratch reserved.
  virtual size_t own_bytes(size_t /*scratch*/) const { return 0; }
  // Names the implementation that runs such an attention call, and why others were passed over:
  // "flash (cudnn: attention dropout)".
  virtual std::string explain_attention(const Tensor& /*q*/, const Tensor& /*k*/, const Tensor& /*doc_start*/,
                                        const AttentionSpec&) const {
    return std::string(name());
  }
  // FLOP/s that no matrix product exceeds. On GPUs it is the data sheet's; on CPUs this call measures it in a few
  // milliseconds, with all operands in registers and the calling thread's number of threads. 0: not known.
  virtual double peak_flops(DType) const { return 0.0; }
  virtual void synchronize() {}

  // ---- asynchronous copies between device and host memory -----------------------------------------------------------
  Copies& copies();
  // Starts an op on tensors in host memory, by the host's cores and beside the other ops: after earlier ones of this
  // kind and after the copy `after`. Results are those of the device's op, on a GPU up to rounding. Only observers of
  // the copies see it.
#define FP_OP(Call, name) CopyTicket start_on_host(const calls::Call&, const CopyTicket& after = {});
  FP_HOST_OPS(FP_OP)
#undef FP_OP

  // ---- the ops ------------------------------------------------------------------------------------------------------
  // Each checks its call, runs it and reports it to the observers. A wrong call throws InternalError before any memory
  // is accessed; so does one with a tensor in host memory, or one that an unfinished copy still fills.
#define FP_OP(Call, name) void name(const calls::Call&);
  FP_OPS(FP_OP)
#undef FP_OP
  // Notifies the backend that weights have changed; it drops cached copies in other layouts.
  void weights_changed();

  // The observer must outlive its observation.
  void observe(OpObserver& observer) { observers_.push_back(&observer); }
  void stop_observing(OpObserver& observer) { std::erase(observers_, &observer); }

 protected:
  // A backend implements one function for each op; calls are valid. Fused ops are implemented here by their parts.
  // Inside a backend, run() executes an op without checks and without a report to the observers.
#define FP_OP(Call, name) virtual void run(const calls::Call&) = 0;
  FP_UNFUSED_OPS(FP_OP)
#undef FP_OP
#define FP_OP(Call, name) virtual void run(const calls::Call&);
  FP_FUSED_OPS(FP_OP)
#undef FP_OP
  virtual void drop_copies_of_weights() {}
  // The backend that runs ops on host memory, in a thread of its own; it is this one where the device is the host.
  virtual Ops& host_backend() { return *this; }
  virtual std::unique_ptr<Copies> make_copies() { return std::make_unique<SynchronousCopies>(); }

 private:
  void check_memory(std::string_view op, const Tensor&) const;
  template <class Call>
  void issue(const Call&);
  template <class Call>
  CopyTicket issue_on_host(const Call&, const CopyTicket& after);

  std::vector<OpObserver*> observers_;
  std::unique_ptr<Copies> copies_;  // made at the first use
};

// The declaration of an op in a backend: FP_UNFUSED_OPS(FP_RUN_OP).
#define FP_RUN_OP(Call, name) void run(const calls::Call&) override;

}  // namespace fp
