// The CUDA backend. An op checks its call and launches its kernels on the compute stream. One file per family of ops,
// with a file comment on what its kernels compute, what a block does and which bytes it moves.
//
// Kernels accept any shape and any alignment of whole elements; aligned rows are moved 16 bytes at a time. No result
// depends on the order in which threads or blocks run.
#pragma once

#include <map>
#include <vector>

#include "cuda/ops/attention/attention.h"
#include "cuda/ops/piece_table.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/gemm.h"
#include "ops/ops.h"

namespace fp {

class CudaOps final : public Ops {
 public:
  // `host`: the backend that runs ops on host memory (Ops::start_on_host); null: none will be run.
  explicit CudaOps(int device_index, std::unique_ptr<Ops> host = nullptr);

  std::string_view name() const override { return "cuda"; }

  std::shared_ptr<std::byte> allocate(size_t bytes, bool huge_pages) override;
  std::shared_ptr<std::byte> allocate_host(size_t bytes, bool huge_pages) override;
  std::optional<DeviceMemory> device_memory() const override;
  std::string device_id() const override;
  using Ops::scratch_of;
  size_t scratch_of(const calls::Attention&) const override;
  size_t scratch_of(const calls::AttentionBackward&) const override;
  void reserve_scratch(size_t bytes) override;
  size_t own_bytes(size_t scratch) const override;
  std::string explain_attention(const Tensor& q, const Tensor& k, const Tensor& doc_start,
                                const AttentionSpec&) const override;
  double peak_flops(DType) const override;
  void synchronize() override { device_.synchronize(); }

  cuda::Device& device() { return device_; }
  // Runs an op as a part of another op. The call must be valid: it is not checked, and not reported to observers.
  template <class Call>
  void run_part(const Call& call) {
    run(call);
  }

 private:
  using Ops::run;  // of the ops that are not fused here
  FP_UNFUSED_OPS(FP_RUN_OP)
  FP_RUN_OP(LinearGelu, linear_gelu)
  FP_RUN_OP(LinearBackwardInputGelu, linear_backward_input_gelu)
  std::unique_ptr<Copies> make_copies() override;
  Ops& host_backend() override;
  template <class Rule, class Call>
  void run_update(const Call&);

  cuda::Stream stream() const { return device_.compute(); }

  cuda::Device device_;
  cuda::Gemm gemm_;
  cuda::Attention attention_;
  cuda::PieceTable pieces_;
  std::unique_ptr<Ops> host_;
};

}  // namespace fp
