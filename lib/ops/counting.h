// Counting Ops: adds up what a run would do and touches no memory. The model code on it is the dry run.
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
  double flops = 0;  // multiply-adds count 2; element-wise arithmetic counts what it does, roughly
  double bytes = 0;  // read plus written, each operand once
};

// One call as it is counted.
struct OpWork {
  std::string_view op;          // "linear", "attention_backward", ...
  double flops = 0, bytes = 0;  // as in OpCount
  int64_t m = 0, n = 0, k = 0;  // of a matrix product: tokens x outputs x inputs of the layer
  DType dtype = DType::f32;     // of the tensor that is computed; of a product, of its activations
};

// Is told of every call, in order: what gives each its time.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void called(const OpWork&) = 0;
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
  virtual void reset() = 0;  // of the counts
  // From now on; null: nobody. Must outlive its use.
  virtual void observe(OpObserver*) = 0;
  // Scratch that the device would take for the largest of the calls so far, and what that adds to what it holds beside
  // tensors; reset() leaves both.
  virtual size_t scratch_bytes() const = 0;
  virtual size_t own_bytes() const = 0;
  // What would run the calls of attention so far, one text for each kind of call.
  virtual const std::set<std::string>& attention_choices() const = 0;
};

// `device`: what is to run the calls later and knows what it needs for itself; none: nothing. Must outlive the counter.
// `memory`: of such a device where there is none; empty: the device's, or the host's.
std::unique_ptr<CountingOps> make_counting_ops(const Ops* device = nullptr, std::optional<DeviceMemory> memory = {});

}  // namespace fp
