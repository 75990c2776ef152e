// CountingOps: an Ops backend that adds up the FLOPs and bytes of every call and touches no memory. A dry run is the
// model code on this backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ops/ops.h"

namespace fp {

struct OpCount {
  int64_t calls = 0;
  double flops = 0, bytes = 0;  // as in OpWork
};

struct Counts {
  std::map<std::string, OpCount> by_op;        // "linear", "attention_backward", ...
  std::map<std::string, OpCount> gemm_shapes;  // every distinct GEMM, for benchmarks: "linear 1024x768x768 bf16" = op,
                                               // tokens x outputs x inputs of the layer
  double flops() const;
  double gemm_flops() const;
  double bytes() const;
};

class CountingOps : public Ops {
 public:
  virtual const Counts& counts() const = 0;
  virtual void reset() = 0;  // sets all counts to zero
  // Largest scratch, in bytes, that the device would need for any call since forget_scratch(), and the memory beside
  // tensors that it would hold with that much scratch reserved. reset() changes neither.
  virtual size_t scratch_bytes() const = 0;
  virtual size_t device_own_bytes() const = 0;
  virtual void forget_scratch() = 0;
  // The attention implementations that would run the attention calls so far: one text for each kind of call.
  virtual const std::set<std::string>& attention_choices() const = 0;
};

// `device`: the backend that will run the calls later; it provides its own memory needs and must outlive the
// result. Null: there are none. `memory`: the memory of the device that is planned for where none is present; empty:
// that of `device`, or of the host.
std::unique_ptr<CountingOps> make_counting_ops(const Ops* device = nullptr, std::optional<DeviceMemory> memory = {});

}  // namespace fp
