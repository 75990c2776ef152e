// The CPU backend. An op checks its call, translates it to the arguments of the kernels for this CPU's instruction set
// (kernels.h) and provides their scratch memory. One file per family of ops.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/scratch.h"
#include "ops/ops.h"

namespace fp {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(const cpu::Kernels& kernels, const CopySettings& copies = {}) : k_(kernels), copy_settings_(copies) {}

  std::string_view name() const override { return "cpu"; }
  double peak_flops(DType) const override;

 private:
  FP_UNFUSED_OPS(FP_RUN_OP)
  void gemm(cpu::GemmArgs);
  std::unique_ptr<Copies> make_copies() override;

  const cpu::Kernels& k_;
  cpu::ScratchPool scratch_;
  CopySettings copy_settings_;
};

}  // namespace fp
