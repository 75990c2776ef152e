#include "ops/ops.h"

#include "tensor/arena.h"

namespace fp {

std::shared_ptr<std::byte> Ops::allocate(size_t bytes, bool huge_pages) { return host_memory(bytes, huge_pages); }

void Ops::linear_gelu(const Tensor& y, const Tensor& u, const Tensor& x, const Tensor& w, const Tensor& bias) {
  linear(u, x, w, bias);
  activation(y, u, {Activation::gelu});
}

void Ops::linear_backward_input_gelu(const Tensor& du, const Tensor& dy, const Tensor& w, const Tensor& u) {
  linear_backward_input(du, dy, w);
  activation_backward(du, du, u, {Activation::gelu});
}

void Ops::linear_backward_weight_bias(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x,
                                      Write dw_write, Write db_write) {
  linear_backward_weight(dw, dy, x, dw_write);
  bias_backward(db, dy, db_write);
}

}  // namespace fp
