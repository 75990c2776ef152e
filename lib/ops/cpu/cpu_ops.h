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
  using Ops::scratch_of;
  size_t scratch_of(const calls::Linear&) const override;
  size_t scratch_of(const calls::LinearBackwardInput&) const override;
  size_t scratch_of(const calls::LinearBackwardWeight&) const override;
  size_t scratch_of(const calls::BiasBackward&) const override;
  size_t scratch_of(const calls::NormBackwardWeight&) const override;
  size_t scratch_of(const calls::Attention&) const override;
  size_t scratch_of(const calls::AttentionBackward&) const override;
  void reserve_scratch(size_t bytes) override { scratch_.acquire(bytes); }
  size_t own_bytes(size_t scratch) const override { return scratch; }
  size_t pooled_scratch() const { return scratch_.bytes(); }  // bytes that calls so far have allocated

 private:
  FP_UNFUSED_OPS(FP_RUN_OP)
  size_t scratch_of(const cpu::GemmArgs&) const;
  void gemm(cpu::GemmArgs);
  std::unique_ptr<Copies> make_copies() override;

  const cpu::Kernels& k_;
  cpu::ScratchPool scratch_;
  CopySettings copy_settings_;
};

}  // namespace fp
