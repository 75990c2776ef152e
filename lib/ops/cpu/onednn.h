// Matrix products by oneDNN. Primitives are created once for each shape and cached. Thread-safe.
#pragma once

#include <memory>

#include "ops/cpu/isa.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/scratch.h"

namespace fp::cpu {

class OneDnn {
 public:
  // `isa` is the instruction set of this backend: below amx, oneDNN is not used.
  explicit OneDnn(Isa isa);
  ~OneDnn();

  // Returns whether oneDNN multiplies bf16 with AMX.
  bool amx() const { return amx_; }

  // Returns whether oneDNN is the faster implementation of this product on this CPU.
  bool prefers(const GemmArgs&) const;

  // Computes the product. The arguments' `scratch` and `threads` are ignored; scratch comes from the pool.
  void gemm(const GemmArgs&, ScratchPool&);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  bool amx_;
};

}  // namespace fp::cpu
