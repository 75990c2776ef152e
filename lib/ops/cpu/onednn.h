// Matrix products by oneDNN: primitives made once for each shape and kept. Thread-safe.
#pragma once

#include <memory>

#include "ops/cpu/isa.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/scratch.h"

namespace fp::cpu {

class OneDnn {
 public:
  // `isa` caps this backend: below amx oneDNN is left aside.
  explicit OneDnn(Isa isa);
  ~OneDnn();

  // Whether oneDNN multiplies bf16 with AMX.
  bool amx() const { return amx_; }

  // Whether oneDNN is the faster implementation of this product on this CPU.
  bool prefers(const GemmArgs&) const;

  // scratch and threads of the arguments are not used.
  void gemm(const GemmArgs&, ScratchPool&);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  bool amx_;
};

}  // namespace fp::cpu
