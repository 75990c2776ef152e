// Muon (Jordan et al., 2024; Liu et al., arXiv 2502.16982): matrices of the layers are updated along their
// orthogonalized momentum, all other parameters by AdamW.
//
// A step of a matrix W with gradient G:  M = momentum * M + G,  U = G + momentum * M (Nesterov),
// W -= lr * (scale * orthogonalized(U) + weight_decay * W). MuonMatrix in exec/matrix_update.h defines what one matrix
// is. The caller of MatrixUpdate computes the last line, as a matrix may be spread over ranks.
#pragma once

#include "optim/optimizer.h"

namespace fp {

// Updates parameters that are not matrices by AdamW. For matrices, updates the momentum and replaces the gradient by U.
class MuonOptimizer final : public Optimizer {
 public:
  explicit MuonOptimizer(const OptimizerSection&);
  void update(Ops&, const UpdateTensors&, std::span<const ParamRange>, const UpdateStep&,
              const UpdateChecksums&) const override;
  CopyTicket update_on_host(Ops&, const UpdateTensors&, std::span<const ParamRange>, const UpdateStep&,
                            const CopyTicket&, const UpdateChecksums&) const override;

 private:
  OptimizerSection spec_;
  std::unique_ptr<Optimizer> adamw_;
};

// Returns the factor on the orthogonalized update of a matrix of this shape.
double muon_scale(MuonScale, int64_t rows, int64_t cols);

// Replaces x f32 [rows,cols], whose Frobenius norm is `norm`, by scale * UV' of its singular value decomposition USV',
// approximated by five Newton-Schulz iterations with products in the type of `workspace`, a tensor of at least
// orthogonalize_elements(). The singular values of the result, scale aside, lie between about 0.7 and 1.2; where those
// of x are tiny beside the norm, they are lower.
void orthogonalize(Ops&, const Tensor& x, double norm, double scale, const Tensor& workspace);

int64_t orthogonalize_elements(int64_t rows, int64_t cols);
// FLOPs of the products of orthogonalize().
double orthogonalize_flops(int64_t rows, int64_t cols);

}  // namespace fp
