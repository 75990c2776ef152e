// Counting Ops: adds up what a run would do and touches no memory. The model code on it is the dry run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ops/ops.h"

namespace fp {

struct OpCount {
  int64_t calls = 0;
  double flops = 0;  // multiply-adds count 2; element-wise arithmetic counts what it does, roughly
  double bytes = 0;  // read plus written, each operand once
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
  virtual void reset() = 0;
};

std::unique_ptr<CountingOps> make_counting_ops();

}  // namespace fp
